package checks

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// FoldSiblings makes one row of facts that differ alike and are told apart by one
// number alone: the power limit of eight GPUs is one setting, nvml.cards.[0-7].power.limit.
// The row stands where the first of them stood.
func FoldSiblings(diffs []FactDiff) []FactDiff {
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
			var numbers []int
			for _, member := range family {
				numbers = append(numbers, member.number)
				gone[member.row] = member.row != i
			}
			folded[i].Fact = s.before + ranges(numbers) + s.after
			break
		}
	}
	var kept []FactDiff
	for i, d := range folded {
		if !gone[i] {
			kept = append(kept, d)
		}
	}
	return kept
}

// FoldChanges makes one change of those on a node that FoldSiblings takes for one, before
// and after being as two nodes that differ.
func FoldChanges(changes []Change) (folded []Change) {
	var diffs []FactDiff
	for _, c := range changes {
		diffs = append(diffs, FactDiff{Fact: c.Fact, Groups: []FactGroup{{Value: c.Before, Nodes: []string{"before"}}, {Value: c.After, Nodes: []string{"after"}}}})
	}
	for _, d := range FoldSiblings(diffs) {
		folded = append(folded, Change{Node: changes[0].Node, Fact: d.Fact, Before: d.Groups[0].Value, After: d.Groups[1].Value})
	}
	return folded
}

// sibling is a fact's name around one of its numbers.
type sibling struct {
	before, after string
	number, row   int
}

var numberIn = regexp.MustCompile(`\d+`)

// siblings are the ways in which a fact may be one of several, by the number that
// tells it apart. One that begins with 0 is no number to count by.
func siblings(fact string) (ways []sibling) {
	for _, at := range numberIn.FindAllStringIndex(fact, -1) {
		digits := fact[at[0]:at[1]]
		if n, err := strconv.Atoi(digits); err == nil && strconv.Itoa(n) == digits {
			ways = append(ways, sibling{before: fact[:at[0]], after: fact[at[1]:], number: n})
		}
	}
	return ways
}

// groupsKey is alike for facts on which the same nodes have the same values.
func groupsKey(d FactDiff) string {
	var key strings.Builder
	for _, g := range d.Groups {
		fmt.Fprintf(&key, "%s%q", g.Value, g.Nodes)
	}
	return key.String()
}

// ranges writes numbers as a hostfile folds nodes: [0-3,7].
func ranges(numbers []int) string {
	slices.Sort(numbers)
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := strconv.Itoa(numbers[i])
		if last > i {
			part += "-" + strconv.Itoa(numbers[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return "[" + strings.Join(parts, ",") + "]"
}
