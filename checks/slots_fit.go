package checks

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

var slotsFit = Check{
	ID:       "slots-fit",
	Title:    "every node has an accelerator for each of its slots",
	Severity: Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionGPU},
	Doc: "A slot is the index of an accelerator, and DeepSpeed hands it to the node as it stands: nothing compares slots=8 of the hostfile, a number of " +
		"--num_gpus or, in 0.15.2 to 0.19.6, an index of --include with what the node has. The rank whose accelerator is not there dies when it first touches it, and the " +
		"others wait for it. Counted are the GPUs that NVIDIA's driver shows; where it was not asked, device nodes and the GPUs that it holds; and the device nodes of other makers. A GPU that is there and not " +
		"shown counts too, for gpu-count or gpu-driver-loads speaks of it, and a node whose driver fails is left to the latter. CUDA_VISIBLE_DEVICES hides GPUs from ranks that no launch.py of DeepSpeed starts. " +
		"More accelerators than slots are nobody's fault, nor are slots where no node has any, if nobody asked for one: DeepSpeed takes the CPU then, since 0.14.1.",
	WouldSee: "RuntimeError: CUDA error: invalid device ordinal",
	Run:      judgeSlots,
}

// leftTo is of a node whose slots do not fit, or perhaps, and another check says why.
func leftTo(check string, node *facts.Node) Finding {
	f := unknown(node, "the GPUs of "+node.Name+" are not all shown: see "+check)
	f.Explained = true
	return f
}

func judgeSlots(view View) []Finding {
	p := view.Launch
	cpu, nobodySaid := p.Accelerator == "cpu", p.AcceleratorOpen
	switch {
	case cpu && !nobodySaid:
		return skip("accelerator cpu: a slot is a process")
	case cpu && !p.Torchrun():
		return skip("no node shows an accelerator: DeepSpeed takes the CPU then, and a slot is a process (--accelerator cpu)")
	}
	var findings []Finding
	slotsOf := p.SlotsUsed()
	asked := false
	bare := 0
	for _, node := range view.Nodes {
		if count, known := launch.Accelerators(node); known && count+notShown(view, node) == 0 && !driverFails(view, node) {
			bare++
		}
	}
	for _, node := range rankNodes(view) {
		slots := slotsOf(node)
		asked = asked || len(slots) > 0
		count, known := launch.Accelerators(node)
		there := count + notShown(view, node)
		switch {
		case driverFails(view, node):
			findings = append(findings, leftTo("gpu-driver-loads", node))
		case !known:
			findings = append(findings, unknown(node, "how many accelerators there are was not seen"))
		case len(slots) > 0 && slices.Max(slots) >= there:
			f := tooFew(p, node, slots, count)
			if !cpu && count == 0 && bare == len(view.Nodes) {
				f.Remedy = noneAnywhere
			}
			if cpu { // torchrun takes nothing: the script may be one for the CPU
				f.Verdict = Warn
				f.Remedy = append(f.Remedy, fix.Here("preflight --accelerator cpu …   # if the script is to run on the CPU"))
			}
			findings = append(findings, ofMachine(view, node, f))
		case len(slots) > 0 && slices.Max(slots) >= count:
			findings = append(findings, leftTo(whoMissesGPU(node), node))
		case len(slots) > 0 && there == count && !p.ChoosesDevices():
			findings = append(findings, hidden(view, node, slots, count)...)
		}
	}
	if !asked {
		return skip("nothing says how many ranks a node gets")
	}
	return findings
}
