package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// group is the nodes that share one value; Value "" means they do not have it.
type group struct {
	Value string
	Nodes []string
}

// groupBy sorts nodes by a value, the largest group first; equal sizes keep
// hostfile order.
func groupBy(nodes []*facts.Node, value func(*facts.Node) string) []group {
	var groups []group
	at := map[string]int{}
	for _, node := range nodes {
		v := value(node)
		i, seen := at[v]
		if !seen {
			i = len(groups)
			at[v] = i
			groups = append(groups, group{Value: v})
		}
		groups[i].Nodes = append(groups[i].Nodes, node.Name)
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return groups
}

// same finds the nodes whose value differs. What nobody has is not compared: a
// caller that minds asks first. More than half of the nodes is a majority, and
// the others are the finding; without one every group is named and none is blamed.
func same(nodes []*facts.Node, what string, value func(*facts.Node) string) []Finding {
	groups := groupBy(nodes, value)
	if len(groups) < 2 {
		return nil
	}
	if 2*len(groups[0].Nodes) <= len(nodes) {
		var all, parts []string
		for _, g := range groups {
			all = append(all, g.Nodes...)
			parts = append(parts, fmt.Sprintf("%s on %s", shown(g.Value), hostfile.Fold(g.Nodes)))
		}
		return []Finding{{
			Nodes:   all,
			Summary: what + " differs and no value has a majority",
			Got:     strings.Join(parts, "; "),
			Want:    "one value everywhere",
		}}
	}
	var findings []Finding
	for _, g := range groups[1:] {
		findings = append(findings, Finding{
			Nodes:   g.Nodes,
			Summary: what + " differs from the other nodes",
			Got:     shown(g.Value),
			Want:    fmt.Sprintf("%s, as on %s", shown(groups[0].Value), hostfile.Fold(groups[0].Nodes)),
		})
	}
	return findings
}

func shown(value string) string {
	if value == "" {
		return "absent"
	}
	return value
}
