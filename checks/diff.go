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
	diffs := []FactDiff{}
	for _, section := range facts.Sections() {
		var seen []*facts.Node
		for i := range nodes {
			if nodes[i].Reached && nodes[i].Has(section) {
				seen = append(seen, &nodes[i])
			}
		}
		kinds := kindsOf(seen, section)
		spreads := spreadsOf(kinds.first, section)
		for _, path := range slices.Sorted(maps.Keys(spreads)) {
			if spread := spreads[path]; !spread.everywhere(len(kinds.first)) {
				diffs = append(diffs, FactDiff{Fact: path, Groups: spread.groups(kinds, seen)})
			}
		}
	}
	return diffs
}

// kinds parts nodes by how a section of theirs looks. Most nodes of a fleet look
// like one of a few, so that the facts of these few are all there is to compare.
type kinds struct {
	first []*facts.Node // of each kind
	of    map[*facts.Node]int
}

// manyKinds is how many kinds a node is compared with before it is taken for one of
// its own. Nodes of a kind that was met too long ago only cost time.
const manyKinds = 8

func kindsOf(nodes []*facts.Node, section facts.Section) kinds {
	k := kinds{of: make(map[*facts.Node]int, len(nodes))}
	var recent []int // kinds, the last met first
	for _, node := range nodes {
		at := slices.IndexFunc(recent, func(kind int) bool { return node.Alike(&k.first[kind].Facts, section) })
		kind := len(k.first)
		if at >= 0 {
			kind = recent[at]
			recent = slices.Delete(recent, at, at+1)
		} else {
			k.first = append(k.first, node)
		}
		k.of[node] = kind
		recent = slices.Insert(recent[:min(len(recent), manyKinds-1)], 0, kind)
	}
	return k
}

// spread is where the values of one fact are found. Nearly always all nodes
// agree, so the first value met has a place of its own.
type spread struct {
	first  string
	others map[int]string // kind → another value
	have   []int32        // kinds that have the fact at all, ascending; there may be as many as nodes
}

// spreadsOf walks one node of each kind.
func spreadsOf(nodes []*facts.Node, section facts.Section) map[string]*spread {
	spreads := map[string]*spread{}
	for kind, node := range nodes {
		node.EachComparable(section, func(path, value string) {
			s, known := spreads[path]
			if !known {
				if isLookup(path) {
					return
				}
				s = &spread{first: value, others: map[int]string{}}
				spreads[path] = s
			}
			if last := len(s.have) - 1; last >= 0 && s.have[last] == int32(kind) {
				return // a node that lists one thing twice says it twice: the first counts
			}
			s.have = append(s.have, int32(kind))
			if value != s.first {
				s.others[kind] = value
			}
		})
	}
	return spreads
}

// everywhere is whether all of so many kinds have the fact and agree on it.
func (s *spread) everywhere(kinds int) bool { return len(s.have) == kinds && len(s.others) == 0 }

// groups are the nodes by their value of the fact.
func (s *spread) groups(kinds kinds, nodes []*facts.Node) (groups []FactGroup) {
	value := func(node *facts.Node) string {
		kind := kinds.of[node]
		if _, has := slices.BinarySearch(s.have, int32(kind)); !has {
			return ""
		}
		return cmp.Or(s.others[kind], s.first)
	}
	for _, g := range groupBy(nodes, value) {
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
