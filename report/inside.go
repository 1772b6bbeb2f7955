package report

import (
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// inside says of what the facts are where the ranks run in something on the nodes, none where
// they are the nodes' own. What is said of ssh is the nodes' own all the same.
func (w Words) inside() (parts []string) {
	nodes := map[string][]string{}
	var ways []string
	for i := range w.report.Nodes {
		node := &w.report.Nodes[i]
		if node.SSH == nil || node.SSH.Inside == nil {
			continue
		}
		way := wayInside(node)
		if nodes[way] == nil {
			ways = append(ways, way)
		}
		nodes[way] = append(nodes[way], node.Name)
	}
	for _, way := range ways {
		part := "seen inside " + way
		if len(nodes[way]) < w.fleet {
			part += " on " + w.briefly(nodes[way])
		}
		parts = append(parts, part)
	}
	if parts != nil {
		parts[len(parts)-1] += " (but for what is said of ssh)"
	}
	return parts
}

// wayInside is the command that enters what the ranks of a node run in, as all nodes have
// it that are named in it.
func wayInside(node *facts.Node) string {
	bare := hostfile.Bare(node.Name)
	var words []string
	for _, word := range node.SSH.Inside {
		words = append(words, fix.Quote(strings.ReplaceAll(word, bare, "{node}")))
	}
	return strings.Join(words, " ")
}
