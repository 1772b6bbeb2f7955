package checks

import (
	"cmp"
	"slices"

	"preflight/facts"
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
	i := -1
	for _, node := range nodes {
		v := value(node)
		seen := i >= 0 && groups[i].Value == v // neighbours mostly are alike
		if !seen {
			i, seen = at[v]
		}
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

// shown is a value as a person reads it.
func shown(value string) string {
	if value == "" {
		return "absent"
	}
	return value
}
