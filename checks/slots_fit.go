package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var slotsFit = Check{
	ID:       "slots-fit",
	Title:    "every node has an accelerator for each of its slots",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionGPU},
	Doc: "A slot is the index of an accelerator, and DeepSpeed hands it to the node as it stands: nothing compares slots=8 of the hostfile, a number of " +
		"--num_gpus or, since 0.15.2, an index of --include with what the node has. The rank whose accelerator is not there dies when it first touches it, and the " +
		"others wait for it. Counted are device nodes, NVIDIA's and others', and the GPUs that NVIDIA's driver holds; whether they work is not looked at. " +
		"More accelerators than slots are nobody's fault.",
	WouldSee: "RuntimeError: CUDA error: invalid device ordinal",
	Run:      judgeSlots,
}

func judgeSlots(view View) []Finding {
	if view.Launch.Accelerator == "cpu" {
		return skip("accelerator cpu: a slot is a process")
	}
	var findings []Finding
	slotsOf := slotsByNode(view.Launch)
	asked, any, unknowns := false, false, 0
	for _, node := range rankNodes(view) {
		slots := slotsOf(node)
		asked = asked || len(slots) > 0
		switch count, known := launch.Accelerators(node); {
		case !known:
			unknowns++
			findings = append(findings, unknown(node, "how many accelerators there are was not seen"))
		case len(slots) > 0 && slices.Max(slots) >= count:
			any = any || count > 0
			findings = append(findings, ofMachine(view, node, tooFew(view.Launch, node, slots, count)))
		default:
			any = any || count > 0
		}
	}
	switch {
	case !asked:
		return skip("nothing says how many ranks a node gets")
	case !any && unknowns == 0:
		return skip("no node shows an accelerator: DeepSpeed takes the CPU then, and a slot is a process (--accelerator cpu)")
	}
	return findings
}

// slotsByNode are the accelerators that the launch gives to the ranks of every
// node, nil where nothing says, or where their number is the accelerators' own.
func slotsByNode(p launch.Prediction) func(*facts.Node) []int {
	slots := map[string][]int{}
	for _, host := range p.Hosts {
		slots[host.Name] = host.Slots
	}
	switch {
	case p.Torchrun() && p.Script != "":
		ranks := 1 // torchrun's default
		if p.PerNode != "" {
			ranks, _ = strconv.Atoi(p.PerNode) // auto and gpu count for themselves
		}
		each := make([]int, max(ranks, 0))
		for i := range each {
			each[i] = i
		}
		return func(*facts.Node) []int { return each }
	case p.Local && len(p.Hosts) > 0:
		return func(*facts.Node) []int { return p.Hosts[0].Slots }
	}
	return func(node *facts.Node) []int { return slots[node.Name] }
}

// tooFew is a machine with count accelerators, and slots beyond them.
func tooFew(p launch.Prediction, machine *facts.Node, slots []int, count int) Finding {
	f := Finding{
		Nodes:   []string{machine.Name},
		Summary: "ranks are to use accelerators that are not there",
		Got:     fmt.Sprintf("%d accelerators, 0 to %d", count, count-1),
		Want:    "slots " + indices(slots),
		Fix:     append([]string{"{ssh} nvidia-smi -L   # is one missing?"}, fewerSlots(p, slots, count)...),
	}
	switch count {
	case 0:
		f.Got = "no accelerator"
	case 1:
		f.Got = "one accelerator, 0"
	}
	if slots[0] >= count {
		// CUDA stops reading CUDA_VISIBLE_DEVICES at the first index that is not there.
		f.WouldSee = "RuntimeError: No CUDA GPUs are available"
	}
	return f
}

// fewerSlots is what to write for machines with count accelerators.
func fewerSlots(p launch.Prediction, slots []int, count int) []string {
	switch {
	case p.Torchrun() && count > 0:
		return []string{fmt.Sprintf("torchrun --nproc_per_node=%d …   # on every node", count)}
	case count == 0:
		return []string{"# take {nodes} out of the hostfile"}
	case len(slots) <= count:
		return []string{fmt.Sprintf("# in --include: slots of 0 to %d for {nodes}", count-1)}
	}
	return []string{
		fmt.Sprintf("# in the hostfile: slots=%d for {nodes}", count),
		fmt.Sprintf("deepspeed --num_gpus %d …   # or: so many on every node", count),
	}
}

// indices are slots as a person reads them: "0 to 7" or "1, 7".
func indices(slots []int) string {
	first, last := slots[0], slots[len(slots)-1]
	if len(slots) > 2 && last-first == len(slots)-1 {
		return fmt.Sprintf("%d to %d", first, last)
	}
	var words []string
	for _, slot := range slots {
		words = append(words, strconv.Itoa(slot))
	}
	return strings.Join(words, ", ")
}
