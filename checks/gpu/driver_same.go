package gpu

import (
	"slices"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
)

var DriverSame = checks.Check{
	ID:        "gpu-driver-same",
	Title:     "every node runs the same NVIDIA driver",
	Severity:  checks.Warning,
	Needs:     []facts.Section{facts.SectionNVML},
	DependsOn: []string{"gpu-driver-runs-cuda"},
	Doc: "NCCL takes what all ranks can: the oldest driver decides for all whether cuMem is used, and one node without the open kernel module has no DMA-BUF for GPUDirect. The ranks still work " +
		"together across drivers, so this is warned of. A node that was not updated with the others shows here first. Whether a driver runs torch at all is gpu-driver-runs-cuda's to say.",
	WouldSee: "nothing as a rule; what the oldest driver cannot do is off on all nodes, and a fault of one driver shows on some nodes only",
	Run:      judgeDriversAlike,
}

func judgeDriversAlike(view checks.View) []checks.Finding {
	nodes, findings := judgedGPUs(view)
	// A driver too old for torch is one cause, and said already.
	if tooOld := view.Failing("gpu-driver-runs-cuda"); len(tooOld) < len(nodes) {
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return tooOld[n.Name] })
	}
	telling := func(value func(*facts.Node) string) []*facts.Node {
		return slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return value(n) == "" })
	}
	driver := func(n *facts.Node) string { return n.NVML.Driver }
	all := compare.ByPolicy(view, compare.Among(telling(driver), "driver", driver), "nvml.driver")
	for _, d := range compare.Differences(append(all, compare.Among(telling(remedy.ModuleKind), "kernel module", remedy.ModuleKind))...) {
		f := d.Finding("NVIDIA drivers")
		f.Remedy = []fix.Command{remedy.HowInstalled}
		if !d.Split {
			odd := slices.IndexFunc(nodes, func(n *facts.Node) bool { return n.Name == d.Nodes[0] })
			if usual := slices.IndexFunc(nodes, func(n *facts.Node) bool { return !slices.Contains(d.Nodes, n.Name) }); sameModels(nodes[odd], nodes[usual]) {
				f.Remedy = append(f.Remedy, sameDriver(d, nodes[odd]))
			} else {
				f.Want += "; as far as the other GPUs here can have it: the open module takes Turing or later, and Blackwell takes it and driver 570"
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// sameModels is whether two nodes have GPUs of the same models, so that the driver of
// one is a driver for the other.
func sameModels(a, b *facts.Node) bool {
	models := func(n *facts.Node) (names []string) {
		for i := range n.NVML.Cards {
			names = append(names, n.NVML.Cards[i].Name)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	return slices.Equal(models(a), models(b))
}

// sameDriver brings nodes to the driver and the kind of module of the others.
func sameDriver(d compare.Difference, odd *facts.Node) fix.Command {
	version, kind := odd.NVML.Driver, remedy.ModuleKind(odd)
	for _, dev := range d.Deviations {
		if dev.Name == "driver" {
			version = dev.Want
		} else {
			kind = dev.Want
		}
	}
	return remedy.ExactDriver(odd, version, kind)
}
