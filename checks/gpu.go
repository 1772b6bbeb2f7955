package checks

import (
	"cmp"
	"fmt"
	"slices"

	"preflight/facts"
)

// judgedGPUs are the nodes whose GPUs a check may judge: those whose driver told
// all of them. A node that shows nothing of NVIDIA is for slots-fit and gpu-count to
// speak of. What is found of the others begins with the findings that come along:
// the reason to skip where nothing is to be judged, and an unknown for each node
// whose driver fails, which gpu-driver-loads explains unless it is switched off.
func judgedGPUs(view View) (nodes []*facts.Node, found []Finding) {
	asked, reason := askedGPUs(view)
	if reason != "" {
		return nil, skip(reason)
	}
	unsaid := view.Policy.SwitchesOff("gpu-driver-loads")
	for _, node := range asked {
		switch failure := node.NVML.Failure; {
		case failure == nil:
			nodes = append(nodes, node)
		case unsaid:
			found = append(found, unknown(node, "nvml: the driver does not answer: "+failure.Text))
		default:
			f := unknown(node, "the driver of some nodes fails: see gpu-driver-loads")
			f.Explained = true
			found = append(found, f)
		}
	}
	if nodes == nil && !unsaid {
		return nil, skip("no node has a driver that answers: see gpu-driver-loads")
	}
	return nodes, found
}

// askedGPUs are the nodes that show something of NVIDIA, so that their driver was
// asked, or the reason why GPUs are not what this launch is about. Where nobody said
// so and it takes the CPU because no driver works, it may well be about them.
func askedGPUs(view View) (nodes []*facts.Node, reason string) {
	asked := func(n *facts.Node) bool { return n.NVML.Asked }
	fails := func(n *facts.Node) bool { return n.NVML.Failure != nil }
	if view.Launch.Accelerator == "cpu" && !(view.Launch.AcceleratorOpen && slices.ContainsFunc(view.Nodes, fails)) {
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

// driverCUDA is the newest CUDA that the driver of a node runs by its own account
// ("12.4"), "" where it was not told.
func driverCUDA(node *facts.Node) string {
	if node.NVML == nil {
		return ""
	}
	return node.NVML.CUDA
}

// gpuName is a GPU as a person looks for it.
func gpuName(card facts.Card) string {
	return fmt.Sprintf("GPU %d (%s)", card.Index, cmp.Or(card.Address, "of no known address"))
}
