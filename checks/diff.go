package checks

import (
	"encoding/json"
	"slices"

	"preflight/facts"
)

// Diff lists every fact on which the reached nodes differ, absent counted as a
// value, volatile and per-node facts left out. A section that could not be
// looked at on a node takes no part for that node: not seen is not absent.
func Diff(nodes []facts.Node) []FactDiff {
	diffs := []FactDiff{}
	flat := make([]map[string]string, 0, len(nodes))
	var reached []*facts.Node
	paths := map[string]bool{}
	for i := range nodes {
		if !nodes[i].Reached {
			continue
		}
		reached = append(reached, &nodes[i])
		values := nodes[i].Comparable()
		flat = append(flat, values)
		for path := range values {
			paths[path] = true
		}
	}
	sorted := make([]string, 0, len(paths))
	for path := range paths {
		sorted = append(sorted, path)
	}
	slices.Sort(sorted)
	for _, path := range sorted {
		if d, differs := diffFact(path, reached, flat); differs {
			diffs = append(diffs, d)
		}
	}
	return diffs
}

func diffFact(path string, nodes []*facts.Node, flat []map[string]string) (FactDiff, bool) {
	var seen []*facts.Node
	value := map[*facts.Node]string{}
	for i, node := range nodes {
		if node.Has(sectionOf(path)) {
			seen = append(seen, node)
			value[node] = flat[i][path]
		}
	}
	groups := groupBy(seen, func(n *facts.Node) string { return value[n] })
	if len(groups) < 2 {
		return FactDiff{}, false
	}
	d := FactDiff{Fact: path}
	for _, g := range groups {
		fg := FactGroup{Nodes: g.Nodes}
		if g.Value != "" {
			fg.Value = json.RawMessage(g.Value)
		}
		d.Groups = append(d.Groups, fg)
	}
	return d, true
}

// sectionOf is the first word of a fact's path.
func sectionOf(path string) facts.Section {
	for i := range path {
		if path[i] == '.' {
			return facts.Section(path[:i])
		}
	}
	return facts.Section(path)
}
