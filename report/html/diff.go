// SPDX-License-Identifier: Apache-2.0

package html

import (
	"cmp"
	"slices"

	"preflight/checks"
	"preflight/internal/text"
	"preflight/report"
)

// mostWays is the maximum number of values shown for one fact.
const mostWays = 6

// longestCell is how many characters of a value a cell of the page shows.
const longestCell = 160

// difference is one fact on which nodes differ.
type difference struct {
	Fact string
	// Bar shows the sizes of the groups. Each group has one piece, measured in thousandths of the
	// fleet.
	Bar  []barPiece
	Ways []way
	// More is the number of values that are not shown, and MoreNodes is the number of nodes with
	// these values.
	More, MoreNodes int
}

type barPiece struct {
	X, Width int
	Odd      bool
}

// way is one value and the nodes that have it.
type way struct {
	Value  string
	Absent bool
	Nodes  set
	// Odd is true if fewer nodes have the value than the largest group. If two groups are equally
	// large, neither is odd.
	Odd bool
}

func differences(w report.Words, diffs []checks.FactDiff) (all []difference) {
	for _, d := range diffs {
		row := difference{Fact: text.Escape(d.Fact)}
		total, from := 0, 0
		for _, g := range d.Groups {
			total += len(g.Nodes)
		}
		for i, g := range d.Groups {
			odd := isOdd(d, g)
			width := max(1000*len(g.Nodes)/max(total, 1), 12) // at least 12, so that one node of a thousand is visible
			row.Bar = append(row.Bar, barPiece{from, width, odd})
			from += width
			if i >= mostWays && len(d.Groups) > mostWays+1 {
				row.More++
				row.MoreNodes += len(g.Nodes)
				continue
			}
			row.Ways = append(row.Ways, way{Value: cellText(d, i), Absent: report.Absent(g), Nodes: setOf(w, g.Nodes), Odd: odd})
		}
		row.Bar = fit(row.Bar, from)
		all = append(all, row)
	}
	return all
}

// isOdd reports whether a group is smaller than the largest one, which comes first.
func isOdd(d checks.FactDiff, g checks.FactGroup) bool { return len(g.Nodes) < len(d.Groups[0].Nodes) }

// fit scales pieces that were widened to be visible back to thousandths.
func fit(bar []barPiece, whole int) []barPiece {
	for i := range bar {
		end := (bar[i].X + bar[i].Width) * 1000 / whole
		bar[i].X = bar[i].X * 1000 / whole
		bar[i].Width = end - bar[i].X
	}
	return bar
}

// cellText returns the value of the i-th group. For a long list it returns only the entries that
// the first group lacks. For the first group it returns the entries that the second group lacks.
func cellText(d checks.FactDiff, i int) string {
	value := report.Value(d.Fact, d.Groups[i].Value)
	if len(value) <= longestCell {
		return value
	}
	other := 0
	if i == 0 {
		other = min(1, len(d.Groups)-1)
	}
	if report.Absent(d.Groups[other]) {
		return "present" // the other groups lack the whole value; the facts of a node show the value
	}
	if own, isList := report.Beyond(d.Groups[i], d.Groups[other]); isList {
		value = own
	}
	return report.Shorten(value, longestCell)
}

// oddNodes holds the nodes that are odd in the same number of facts.
type oddNodes struct {
	Nodes set
	Facts string // "7 facts"
	Count int
}

const mostOddOnes = 8

// oddOnes returns the nodes that differ most, by the number of facts in which they are odd. more is
// the number of node sets that are left out.
func oddOnes(w report.Words, diffs []checks.FactDiff) (all []oddNodes, more int) {
	var odd []string // once for each fact in which the node is odd
	for _, d := range diffs {
		for _, g := range d.Groups {
			if isOdd(d, g) {
				odd = append(odd, g.Nodes...)
			}
		}
	}
	nodes := text.GroupBy(odd, func(node string) string { return node })
	for _, alike := range text.GroupBy(nodes, func(node text.Group[string, string]) int { return len(node.All) }) {
		names := text.Map(alike.All, func(node text.Group[string, string]) string { return node.Key })
		all = append(all, oddNodes{Nodes: setOf(w, names), Facts: text.Plural(alike.Key, "fact"), Count: alike.Key})
	}
	slices.SortFunc(all, func(a, b oddNodes) int { return cmp.Compare(b.Count, a.Count) })
	shown := min(len(all), mostOddOnes)
	return all[:shown], len(all) - shown
}
