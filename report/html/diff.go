// SPDX-License-Identifier: Apache-2.0

package html

import (
	"cmp"
	"slices"

	"preflight/checks"
	"preflight/internal/text"
	"preflight/report"
)

// mostWays is how many groups of one fact are shown one by one.
const mostWays = 6

// longestCell is how many characters of one value a cell of the page holds.
const longestCell = 160

// difference is one fact on which nodes differ.
type difference struct {
	Fact string
	// Bar is how the fleet parts: one piece a group, in thousandths of the whole.
	Bar  []barPiece
	Ways []way
	// More counts the groups that are not shown, and MoreNodes the nodes in them.
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
	// Odd is whether fewer nodes have it than the largest group: a split in
	// halves blames nobody.
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
			width := max(1000*len(g.Nodes)/max(total, 1), 12) // one of a thousand is seen, too
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

// isOdd is whether the group is smaller than the largest, which comes first.
func isOdd(d checks.FactDiff, g checks.FactGroup) bool { return len(g.Nodes) < len(d.Groups[0].Nodes) }

// fit brings pieces that were widened to be seen back to thousandths.
func fit(bar []barPiece, whole int) []barPiece {
	for i := range bar {
		end := (bar[i].X + bar[i].Width) * 1000 / whole
		bar[i].X = bar[i].X * 1000 / whole
		bar[i].Width = end - bar[i].X
	}
	return bar
}

// cellText is the value of the i-th group. Of a long list only what the first
// group's lacks is shown, or, of the first, what the second's does.
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
		return "present" // all of it is what the others lack; the facts of a node have it
	}
	if own, isList := report.Beyond(d.Groups[i], d.Groups[other]); isList {
		value = own
	}
	return report.Shorten(value, longestCell)
}

// oddNodes is nodes that are in the smaller group of equally many facts.
type oddNodes struct {
	Nodes set
	Facts string // "7 facts"
	Count int
}

const mostOddOnes = 8

// oddOnes are the nodes that differ most, by how many rows of the table name
// them; more is how many further sets there are.
func oddOnes(w report.Words, diffs []checks.FactDiff) (all []oddNodes, more int) {
	var odd []string // each as often as it is
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
