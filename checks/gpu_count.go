package checks

import (
	"fmt"
	"slices"
	"strconv"

	"preflight/checks/fix"
	"preflight/facts"
)

var gpuCount = Check{
	ID:        "gpu-count",
	Title:     "the driver shows every GPU that is there, and the nodes have equally many where the hostfile does not say otherwise",
	Severity:  Error,
	Needs:     []facts.Section{facts.SectionNVML},
	DependsOn: []string{"slots-fit"},
	Doc: "A GPU that falls off the bus leaves its machine running: the driver shows one fewer, those behind it move up by one, and a rank finds no device of its number or works on " +
		"another one than the log says. Compared are what the driver shows with what it holds and with the device nodes, and the nodes with each other. A number of slots is " +
		"a statement: where it is what the node shows, the node may have fewer than the others. Where it is more, slots-fit says so, and this check does not. " +
		"GPUs that the driver hides from this session, or a job's cgroup keeps it from, are another job's.",
	WouldSee: "RuntimeError: CUDA error: invalid device ordinal",
	Run:      judgeGPUCount,
}

func judgeGPUCount(view View) []Finding {
	nodes, findings := judgedGPUs(view)
	if len(nodes) == 0 {
		return findings
	}
	short := view.Failing("slots-fit")
	slotsOf := view.Launch.SlotsUsed()
	var alike, none []*facts.Node
	for _, node := range nodes {
		switch names := lost(node); {
		case names != nil:
			findings = append(findings, lostGPU(view, node, names, slotsOf(node)))
		case len(unheld(node)) > 0 && !view.Policy.SwitchesOff("gpu-driver-loads"): // which says so
		case !short[node.Name]:
			alike = append(alike, node)
		}
	}
	for _, node := range view.Nodes {
		if !node.NVML.Asked && !short[node.Name] && (slotsOf(node) == nil || len(slotsOf(node)) > 0) {
			none = append(none, node)
		}
	}
	for _, node := range none {
		findings = append(findings, noGPU(node))
	}
	return append(findings, fewerGPUs(alike, slotsOf)...)
}

// noGPU is of a node that shows nothing of NVIDIA among others that do.
func noGPU(node *facts.Node) Finding {
	f := Finding{
		Nodes: []string{node.Name}, Summary: "there is no GPU of NVIDIA's here, and others of the launch have some", Want: "GPUs of one maker on every node",
		WouldSee: noDriver, Remedy: []fix.Command{fix.On("lspci -d 10de:   # does the bus show any?"), fix.Note("take {nodes} out of {hostfile}")},
	}
	if node.GPU != nil && len(node.GPU.Others) > 0 {
		f.Got = fmt.Sprintf("%d accelerators of another maker", len(node.GPU.Others))
		f.WouldSee = "a hang or an error at the first collective: NCCL talks to NCCL alone"
	}
	if container := containerOf(node); container != "" {
		f.Remedy = append(startWithGPUs(container), f.Remedy[1])
	}
	return f
}

// fewerGPUs compares the nodes. One whose slots are as many as it shows is as
// somebody knows it to be.
func fewerGPUs(nodes []*facts.Node, slotsOf func(*facts.Node) []int) []Finding {
	var findings []Finding
	for _, d := range compare(among(nodes, "GPUs", func(n *facts.Node) string { return strconv.Itoa(len(n.NVML.Cards)) })) {
		known := func(name string) bool {
			i := slices.IndexFunc(nodes, func(n *facts.Node) bool { return n.Name == name })
			return len(slotsOf(nodes[i])) == len(nodes[i].NVML.Cards)
		}
		want, _ := strconv.Atoi(d.Deviations[0].Want)
		got, _ := strconv.Atoi(d.Deviations[0].Got)
		d.Nodes = slices.DeleteFunc(slices.Clone(d.Nodes), known)
		if len(d.Nodes) == 0 || !d.Split && got > want {
			continue
		}
		f := d.finding("numbers of GPUs")
		f.Verdict = Warn
		f.Remedy = []fix.Command{fix.On("nvidia-smi -L; lspci -d 10de:   # is one missing?")}
		f.WouldSee = "nothing, if the launch needs no more than are shown"
		findings = append(findings, f)
	}
	return findings
}
