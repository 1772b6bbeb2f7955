// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
)

// Diff returns every fact on which the reached nodes differ. An absent fact counts as a value. Diff
// leaves out volatile facts and facts of single nodes. If a section could not be read on a node,
// the comparison of that section leaves out the node: not seen is not absent.
//
// Diff also leaves out how nodes resolve names, because host-names compares that. Each node
// resolves only a sample of the names, and may rightly resolve its own name differently.
//
// Each difference names every node. If every node named its interfaces differently, all differences
// together would fill the memory. Diff therefore limits the space of each section. leftOut is the
// number of differences that did not fit.
func Diff(nodes []facts.Node) (diffs []checks.FactDiff, leftOut int) {
	diffs = []checks.FactDiff{}
	seen := make([]*facts.Node, 0, len(nodes))
	for _, section := range facts.Sections() {
		room := roomOfSection + roomOfNode*len(nodes)
		seen = seen[:0]
		for i := range nodes {
			if nodes[i].Reached && nodes[i].Has(section) {
				seen = append(seen, &nodes[i])
			}
		}
		kinds := KindsOf(seen, section)
		if len(kinds.First) < 2 {
			continue
		}
		spreads := SpreadsOf(kinds.First, section)
		for _, path := range slices.Sorted(maps.Keys(spreads)) {
			if spreads[path].everywhere(len(kinds.First)) {
				continue
			}
			if room < 0 {
				leftOut++
				continue
			}
			d := checks.FactDiff{Fact: path, Groups: spreads[path].Groups(kinds, seen)}
			if room -= sizeOf(d); room < 0 {
				leftOut++
				continue
			}
			diffs = append(diffs, d)
		}
	}
	return diffs, leftOut
}

// Space for the differences of a section, in bytes. It holds some thousand differences for a few
// nodes, and as many for a thousand nodes. For comparison, eight GPUs that only one node has make
// six hundred differences.
const (
	roomOfSection = 128 << 10
	roomOfNode    = 8 << 10
)

func sizeOf(d checks.FactDiff) (size int) {
	const punctuation = 8 // bytes around each value
	size = len(d.Fact) + punctuation
	for _, g := range d.Groups {
		size += len(g.Value) + punctuation
		for _, node := range g.Nodes {
			size += len(node) + punctuation
		}
	}
	return size
}

// Kinds groups nodes that have the same facts in one section. Most nodes of a fleet belong to one
// of a few kinds, so it is enough to compare one node of each kind.
type Kinds struct {
	First []*facts.Node       // the first node of each kind
	of    map[*facts.Node]int // the kind of each node; a node of kind 0 has no entry
}

// Of returns the index of a node's kind.
func (k Kinds) Of(node *facts.Node) int { return k.of[node] }

// manyKinds is the number of recent kinds with which a node is compared before it gets a kind of
// its own. Comparing the node with older kinds would only cost time.
const manyKinds = 8

func KindsOf(nodes []*facts.Node, section facts.Section) Kinds {
	k := Kinds{of: map[*facts.Node]int{}}
	var recent []int // indexes of kinds, the most recent first
	for _, node := range nodes {
		at := slices.IndexFunc(recent, func(kind int) bool { return node.Alike(&k.First[kind].Facts, section) })
		kind := len(k.First)
		if at >= 0 {
			kind = recent[at]
			recent = slices.Delete(recent, at, at+1)
		} else {
			k.First = append(k.First, node)
		}
		if kind > 0 {
			k.of[node] = kind
		}
		recent = slices.Insert(recent[:min(len(recent), manyKinds-1)], 0, kind)
	}
	return k
}

// spread holds the values of one fact by kind of node. Nearly always all nodes agree, so the first
// value has its own field.
type spread struct {
	first  string
	others map[int]string // values other than first, by kind
	have   []int32        // the kinds that have the fact, in ascending order; at most one entry per node
}

// SpreadsOf returns the spread of every fact of a section. nodes holds the first node of each kind.
func SpreadsOf(nodes []*facts.Node, section facts.Section) map[string]*spread {
	spreads := map[string]*spread{}
	for kind, node := range nodes {
		node.EachComparable(section, func(path, value string) {
			s, known := spreads[path]
			if !known {
				if IsLookup(path) {
					return
				}
				s = &spread{first: value, others: map[int]string{}}
				spreads[path] = s
			}
			if last := len(s.have) - 1; last >= 0 && s.have[last] == int32(kind) {
				return // the node lists the same thing twice, and so reports the fact twice: the first value counts
			}
			s.have = append(s.have, int32(kind))
			if value != s.first {
				s.others[kind] = value
			}
		})
	}
	return spreads
}

// everywhere reports whether all kinds have the fact and agree on its value. kinds is the number of
// kinds.
func (s *spread) everywhere(kinds int) bool { return len(s.have) == kinds && len(s.others) == 0 }

// Groups returns the nodes grouped by their value of the fact.
func (s *spread) Groups(kinds Kinds, nodes []*facts.Node) (groups []checks.FactGroup) {
	value := func(node *facts.Node) string {
		kind := kinds.Of(node)
		if _, has := slices.BinarySearch(s.have, int32(kind)); !has {
			return ""
		}
		return cmp.Or(s.others[kind], s.first)
	}
	for _, g := range GroupBy(nodes, value) {
		groups = append(groups, checks.FactGroup{Value: OrNull(g.Value), Nodes: g.Nodes})
	}
	return groups
}

// IsLookup reports whether a fact exists only on nodes where the probe resolved a certain name. The
// absence of such a fact says nothing.
func IsLookup(path string) bool { return strings.HasPrefix(path, "names.lookups.") }

// SectionOf returns the section of a fact, which is the first word of the fact's path.
func SectionOf(path string) facts.Section {
	section, _, _ := strings.Cut(path, ".")
	return facts.Section(section)
}

// FoldSiblings merges differences between the same nodes and values if the names of the facts
// differ only in one number. The power limit of eight GPUs is one setting:
// nvml.cards.[0-7].power.limit. The merged row takes the place of the first merged difference.
func FoldSiblings(diffs []checks.FactDiff) []checks.FactDiff {
	families := map[string][]sibling{}
	for i, d := range diffs {
		for _, s := range siblings(d.Fact) {
			s.row = i
			key := s.before + "\x00" + s.after + "\x00" + groupsKey(d)
			families[key] = append(families[key], s)
		}
	}
	gone := map[int]bool{}
	folded := slices.Clone(diffs)
	for i, d := range diffs {
		if gone[i] {
			continue
		}
		for _, s := range siblings(d.Fact) {
			family := families[s.before+"\x00"+s.after+"\x00"+groupsKey(d)]
			family = slices.DeleteFunc(slices.Clone(family), func(s sibling) bool { return gone[s.row] })
			if len(family) < 2 {
				continue
			}
			var numbers []string
			for _, member := range family {
				numbers = append(numbers, member.number)
				gone[member.row] = member.row != i
			}
			folded[i].Fact = s.before + hostfile.Fold(numbers) + s.after // the numbers are folded, such as [0-3,7]
			break
		}
	}
	var kept []checks.FactDiff
	for i, d := range folded {
		if !gone[i] {
			kept = append(kept, d)
		}
	}
	return kept
}

// sibling is the name of a fact, split at one of the numbers in it.
type sibling struct {
	before, number, after string
	row                   int
}

var numberIn = regexp.MustCompile(`\d+`)

// siblings returns the ways to split a fact's name at a number. A number with a leading 0 is not a
// counter, so siblings skips it.
func siblings(fact string) (ways []sibling) {
	for _, at := range numberIn.FindAllStringIndex(fact, -1) {
		digits := fact[at[0]:at[1]]
		if n, err := strconv.Atoi(digits); err == nil && strconv.Itoa(n) == digits {
			ways = append(ways, sibling{before: fact[:at[0]], number: digits, after: fact[at[1]:]})
		}
	}
	return ways
}

func groupsKey(d checks.FactDiff) string {
	var key strings.Builder
	for _, g := range d.Groups {
		fmt.Fprintf(&key, "%s%q", g.Value, g.Nodes)
	}
	return key.String()
}

// OrNull returns a fact's value as JSON, or nil if the fact is absent.
func OrNull(value string) json.RawMessage {
	if value == "" {
		return nil
	}
	return json.RawMessage(value)
}
