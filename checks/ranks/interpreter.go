package ranks

import (
	"fmt"
	"strings"

	"preflight/checks"
	"preflight/facts"
)

// Answering is the nodes whose interpreter told about itself; what is wrong
// with the others is python-same's finding, and no other check's.
func Answering(view checks.View) []*facts.Node {
	var nodes []*facts.Node
	for _, node := range view.Nodes {
		if node.Python.Found && node.Python.Problem == "" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Nowhere is the reason to skip what needs a package that no node has.
func Nowhere(view checks.View, what string) []checks.Finding {
	nodes := Answering(view)
	if len(nodes) == 0 {
		return checks.Skipped("no interpreter answered: see python-same")
	}
	return checks.Skipped(fmt.Sprintf("no node has %s installed for %s", what, nodes[0].Python.Path))
}

// TorchBuild is what torch was built for: "CUDA 12.4", "ROCm 6.2", "CPU".
func TorchBuild(t *facts.Torch) string {
	switch {
	case t.CUDA != "":
		return "CUDA " + t.CUDA
	case t.HIP != "":
		return "ROCm " + t.HIP
	}
	return "CPU"
}

func TorchKind(t *facts.Torch) string {
	kind, _, _ := strings.Cut(TorchBuild(t), " ")
	return kind
}
