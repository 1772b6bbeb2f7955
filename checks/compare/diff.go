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

// Diff lists every fact on which the reached nodes differ, absent counted as a
// value, volatile and per-node facts left out. A section that could not be
// looked at on a node takes no part for that node: not seen is not absent. How
// nodes resolve names is left to host-names: each asks for a sample of them,
// and may rightly think otherwise of its own name than the others do.
//
// Each difference names every node: where every node names its interfaces differently, all
// differences together would fill the memory. Diff leaves out those of a section for which
// there is no room, and leftOut counts them.
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

// Room for the differences of a section, in bytes: some thousand for a few nodes, and as many
// for a thousand. Eight GPUs that one node has and another has not are six hundred.
const (
	roomOfSection = 128 << 10
	roomOfNode    = 8 << 10
)

func sizeOf(d checks.FactDiff) (size int) {
	const punctuation = 8 // around each text
	size = len(d.Fact) + punctuation
	for _, g := range d.Groups {
		size += len(g.Value) + punctuation
		for _, node := range g.Nodes {
			size += len(node) + punctuation
		}
	}
	return size
}

// Kinds groups nodes by how a section of theirs looks. Most nodes of a fleet look
// like one of a few, so that the facts of these few are all there is to compare.
type Kinds struct {
	First []*facts.Node       // of each kind
	of    map[*facts.Node]int // but for those of the first
}

// Of is a node's kind, by its place.
func (k Kinds) Of(node *facts.Node) int { return k.of[node] }

// manyKinds is how many kinds a node is compared with before it is taken for one of
// its own. Nodes of a kind that was met too long ago only cost time.
const manyKinds = 8

func KindsOf(nodes []*facts.Node, section facts.Section) Kinds {
	k := Kinds{of: map[*facts.Node]int{}}
	var recent []int // kinds, the last met first
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

// spread is where the values of one fact are found. Nearly always all nodes
// agree, so the first value met has a place of its own.
type spread struct {
	first  string
	others map[int]string // kind → another value
	have   []int32        // kinds that have the fact at all, ascending; there may be as many as nodes
}

// SpreadsOf walks one node of each kind.
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

// Groups are the nodes by their value of the fact.
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

// IsLookup says that a fact is there only where the probe asked for it, so that
// its absence says nothing.
func IsLookup(path string) bool { return strings.HasPrefix(path, "names.lookups.") }

// SectionOf is the first word of a fact's path.
func SectionOf(path string) facts.Section {
	section, _, _ := strings.Cut(path, ".")
	return facts.Section(section)
}

// FoldSiblings makes one row of facts that differ alike and have names that differ in one
// number alone: the power limit of eight GPUs is one setting, nvml.cards.[0-7].power.limit.
// The row stands where the first of them stood.
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
			folded[i].Fact = s.before + hostfile.Fold(numbers) + s.after // [0-3,7]
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

// sibling is a fact's name around one of its numbers.
type sibling struct {
	before, number, after string
	row                   int
}

var numberIn = regexp.MustCompile(`\d+`)

// siblings are the ways in which a fact may be one of several, by the number that
// differs. One that begins with 0 is no number to count by.
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

// OrNull is a fact's value as JSON, nil for one that is not there.
func OrNull(value string) json.RawMessage {
	if value == "" {
		return nil
	}
	return json.RawMessage(value)
}
