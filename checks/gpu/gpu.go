package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// judgedGPUs are the nodes whose GPUs a check may judge: those whose driver told
// all of them. A node that shows nothing of NVIDIA is for slots-fit and gpu-count to
// speak of. What is found of the others begins with the findings that come along:
// the reason to skip where nothing is to be judged, and an unknown for each node
// whose driver fails, which gpu-driver-loads explains unless it is switched off.
func judgedGPUs(view checks.View) (nodes []*facts.Node, found []checks.Finding) {
	asked, reason := askedGPUs(view)
	if reason != "" {
		return nil, checks.Skipped(reason)
	}
	unsaid := view.Policy.SwitchesOff("gpu-driver-loads")
	for _, node := range asked {
		switch failure := node.NVML.Failure; {
		case failure == nil:
			nodes = append(nodes, node)
		case unsaid:
			found = append(found, checks.UnknownFor(node, "nvml: the driver does not answer: "+failure.Text))
		default:
			f := checks.UnknownFor(node, "the driver of some nodes fails: see gpu-driver-loads")
			f.Explained = true
			found = append(found, f)
		}
	}
	if nodes == nil && !unsaid {
		return nil, checks.Skipped("no node has a driver that answers: see gpu-driver-loads")
	}
	return nodes, found
}

// askedGPUs are the nodes that show something of NVIDIA, so that their driver was
// asked, or the reason why GPUs are not what this launch is about. Where nobody said
// so and it takes the CPU because no driver works, it may well be about them.
func askedGPUs(view checks.View) (nodes []*facts.Node, reason string) {
	asked := func(n *facts.Node) bool { return n.NVML.Asked }
	fails := func(n *facts.Node) bool { return n.NVML.Failure != nil }
	if view.Launch.Accelerator == "cpu" && !(view.Launch.AcceleratorAssumed && slices.ContainsFunc(view.Nodes, fails)) {
		return nil, "accelerator cpu: no GPU is used"
	}
	others := func(n *facts.Node) bool { return n.GPU != nil && len(n.GPU.Others) > 0 }
	nodes = slices.DeleteFunc(slices.Clone(view.Nodes), func(n *facts.Node) bool { return !asked(n) })
	switch {
	case len(nodes) > 0:
		return nodes, ""
	case slices.ContainsFunc(view.Nodes, others):
		return nil, "the accelerators are not NVIDIA's"
	}
	return nil, "no node shows a GPU of NVIDIA's"
}

// gpuName is a GPU as a person looks for it.
func gpuName(card facts.Card) string {
	return fmt.Sprintf("GPU %d (%s)", card.Index, cmp.Or(card.Address, "of no known address"))
}

// essential is a fact of a GPU that a check cannot do without: whether a GPU lacks it,
// and the calls of NVML that would tell it, up to the number of their version.
type essential struct {
	missing func(*facts.Card) bool
	calls   []string
}

// refusedFacts is an unknown of a node whose driver refused to tell essential facts of
// GPUs, as it does to a session without the rights. What a GPU or its driver does not
// have is no refusal, and lacks nothing. Calls that failed for another reason are
// gpu-healthy's finding, unless it is switched off.
func refusedFacts(view checks.View, node *facts.Node, cards []*facts.Card, essentials ...essential) []checks.Finding {
	explained := !view.Policy.SwitchesOff("gpu-healthy")
	var calls []string
	var silent []*facts.Card
	for _, card := range cards {
		if len(card.Refused) == 0 || card.MIG == "enabled" { // whose instances have the facts, and their owners the rights
			continue
		}
		for _, fact := range essentials {
			for _, refusal := range card.Refused {
				if !fact.missing(card) || !slices.Contains(fact.calls, withoutVersion(refusal.Call)) {
					continue
				}
				explained = explained && refusal.Kind != facts.FailureNoPermission
				if text := refusal.Call + ": " + compare.Shown(refusal.Text); !slices.Contains(calls, text) {
					calls = append(calls, text)
				}
				if !slices.Contains(silent, card) {
					silent = append(silent, card)
				}
			}
		}
	}
	if silent == nil {
		return nil
	}
	f := checks.UnknownFor(node, fmt.Sprintf("the driver refuses to tell %s of %s", strings.Join(calls, ", "), gpuNames(silent)))
	f.Explained = explained
	return []checks.Finding{f}
}

// withoutVersion is the name of a call without the number of its version.
func withoutVersion(call string) string {
	name, _, _ := strings.Cut(call, "_v")
	return name
}

// Facts that several checks cannot do without.
var (
	neededForMemory = essential{func(card *facts.Card) bool { return card.Memory == 0 }, []string{"nvmlDeviceGetMemoryInfo"}}
	neededForLinks  = essential{func(card *facts.Card) bool { return card.NVLinks == nil }, []string{"nvmlDeviceGetNvLinkState"}}
)

var (
	resetGPU = fix.On("sudo nvidia-smi --gpu-reset -i {gpus}   # once nothing uses it; or reboot")
	// resetGPUs is what becomes of it where GPUs can be reset together only.
	resetGPUs = fix.On("sudo nvidia-smi --gpu-reset   # all of them, as NVLink joins them, once nothing uses any; or reboot")

	// rebootNode ends whatever runs on a node, and not only a launch of ours.
	rebootNode = fix.On("sudo reboot   # once nobody's job runs there")
)

// resetTogether is whether a GPU can be reset only with all that NVLink joins it to:
// before Ampere, and on Ampere behind NVSwitches whose fabric manager does not run.
//
// Source: nvidia-smi(1), driver 550, --gpu-reset.
func resetTogether(node *facts.Node, card *facts.Card) bool {
	if card.NVLinks == nil || activeLinks(card) == 0 || card.Capability == "" {
		return false
	}
	asleep := node.GPU != nil && node.GPU.NVSwitches > 0 && (node.GPU.FabricManager == nil || !node.GPU.FabricManager.Running)
	return hostfile.Before(card.Capability, "8.0") || asleep && hostfile.Before(card.Capability, "9.0")
}
