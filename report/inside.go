// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// inside says of what the facts are where the ranks run in something on the nodes, none where
// they are the nodes' own. What is said of ssh is the nodes' own all the same.
func (w Words) inside() (parts []string) {
	nodes := map[string][]string{}
	var ways []string
	apart := false // a login is the node's own
	for i := range w.report.Nodes {
		node := &w.report.Nodes[i]
		way := wayInside(node)
		if way == "" {
			continue
		}
		apart = apart || node.SSH.Inside != nil
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
	if apart {
		parts[len(parts)-1] += " (but for what is said of ssh)"
	}
	return parts
}

// wayInside is the command that enters what the ranks of a node run in, as all nodes have
// it that are named in it; "" where there is none. What pyxis begins, srun's own options say.
func wayInside(node *facts.Node) string {
	if node.SSH == nil {
		return ""
	}
	bare := hostfile.Bare(node.Name)
	var words []string
	for _, option := range node.SSH.Options {
		if node.SSH.Carrier == "srun" && strings.HasPrefix(option, "--container-") {
			words = append(words, text.Quote(option))
		}
	}
	if words != nil {
		words = append([]string{"srun"}, words...)
	}
	for _, word := range node.SSH.Inside {
		words = append(words, text.Quote(strings.ReplaceAll(word, bare, "{node}")))
	}
	return strings.Join(words, " ")
}
