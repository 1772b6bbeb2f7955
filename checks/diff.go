package checks

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"preflight/facts"
)

// Diff lists every fact on which the reached nodes differ, absent counted as a
// value, volatile and per-node facts left out. A section that could not be
// looked at on a node takes no part for that node: not seen is not absent. How
// nodes resolve names is left to host-names: each asks for a sample of them,
// and may rightly think otherwise of its own name than the others do.
func Diff(nodes []facts.Node) []FactDiff {
	var reached []*facts.Node
	for i := range nodes {
		if nodes[i].Reached {
			reached = append(reached, &nodes[i])
		}
	}
	diffs := []FactDiff{}
	spreads := spreadsOf(reached)
	for _, path := range slices.Sorted(maps.Keys(spreads)) {
		if groups := spreads[path].groups(sectionOf(path), reached); len(groups) > 1 {
			diffs = append(diffs, FactDiff{Fact: path, Groups: groups})
		}
	}
	return diffs
}

// spread is where the values of one fact are found. Nearly always all nodes
// agree, so the first value met has a place of its own.
type spread struct {
	first  string
	others map[int32]string // node → another value
	have   []int32          // nodes that have the fact at all
}

// spreadsOf walks every node once and keeps four bytes for each of its facts:
// ten thousand nodes have two million of them.
func spreadsOf(nodes []*facts.Node) map[string]*spread {
	spreads := map[string]*spread{}
	for i, node := range nodes {
		node.EachComparable(func(path, value string) {
			s, known := spreads[path]
			if !known {
				if isLookup(path) {
					return
				}
				s = &spread{first: value, others: map[int32]string{}}
				spreads[path] = s
			}
			s.have = append(s.have, int32(i))
			if value != s.first {
				s.others[int32(i)] = value
			}
		})
	}
	return spreads
}

// groups are the nodes that saw the section by their value of the fact, nil
// when all agree.
func (s *spread) groups(section facts.Section, nodes []*facts.Node) []FactGroup {
	if len(s.have) == len(nodes) && len(s.others) == 0 {
		return nil
	}
	var seen []*facts.Node
	value := map[*facts.Node]string{}
	for _, i := range s.have {
		value[nodes[i]] = cmp.Or(s.others[i], s.first)
	}
	for _, node := range nodes {
		if node.Has(section) {
			seen = append(seen, node)
		}
	}
	var groups []FactGroup
	for _, g := range groupBy(seen, func(n *facts.Node) string { return value[n] }) {
		groups = append(groups, FactGroup{Value: orNull(g.Value), Nodes: g.Nodes})
	}
	return groups
}

// isLookup says that a fact is there only where the probe asked for it, so that
// its absence says nothing.
func isLookup(path string) bool { return strings.HasPrefix(path, "names.lookups.") }

// sectionOf is the first word of a fact's path.
func sectionOf(path string) facts.Section {
	section, _, _ := strings.Cut(path, ".")
	return facts.Section(section)
}
