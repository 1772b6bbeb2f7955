package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// driverFails is whether gpu-driver-loads says why a node's GPUs cannot be counted.
func driverFails(view View, node *facts.Node) bool {
	return node.NVML != nil && node.NVML.Failure != nil && !view.Policy.SwitchesOff("gpu-driver-loads")
}

// notShown is how many GPUs a machine has beyond those that the driver shows, each
// of which another check speaks of.
func notShown(view View, node *facts.Node) (count int) {
	if node.NVML == nil || !node.NVML.Asked || node.NVML.Failure != nil {
		return 0
	}
	if !view.Policy.SwitchesOff("gpu-count") {
		count += len(lost(node))
	}
	if !view.Policy.SwitchesOff("gpu-driver-loads") {
		count += len(unheld(node))
	}
	return count
}

// whoMissesGPU is the check that speaks of the GPUs of a machine that are not shown.
func whoMissesGPU(node *facts.Node) string {
	if lost(node) != nil {
		return "gpu-count"
	}
	return "gpu-driver-loads"
}

// hidden is of a node that has the accelerators, and whose CUDA_VISIBLE_DEVICES shows
// the ranks too few of them. An empty value hides all, so that it is looked at as it is.
func hidden(view View, node *facts.Node, slots []int, count int) []Finding {
	visible, set := launch.RankEnv(node.Env, view.Launch.Exports)["CUDA_VISIBLE_DEVICES"]
	if !set || node.NVML == nil || !node.NVML.Asked {
		return nil
	}
	shown, known := launch.Visible(visible.Value, count, node.NVML.Cards)
	if !known || slices.Max(slots) < len(shown) {
		return nil
	}
	f := Finding{
		Nodes:   []string{node.Name},
		Summary: "CUDA_VISIBLE_DEVICES hides accelerators that ranks are to use",
		Got:     fmt.Sprintf("%d of %d; %s", len(shown), count, origin(view, visible)),
		Want:    "slots " + indices(slots),
		Remedy:  []fix.Command{searchSession("CUDA_VISIBLE_DEVICES"), fix.Here("unset CUDA_VISIBLE_DEVICES   # in the shell that starts the ranks")},
	}
	if len(shown) == 0 {
		f.WouldSee = noGPUs
	}
	return []Finding{f}
}
