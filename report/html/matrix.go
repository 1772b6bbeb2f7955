// SPDX-License-Identifier: Apache-2.0

package html

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/report"
)

type pageData struct {
	// Names lists the nodes in hostfile order. The names are not escaped, because the script
	// escapes what it shows.
	Names  []string      `json:"names"`
	Checks []matrixCheck `json:"checks"`
	Rows   []matrixRow   `json:"rows"`
	Marks  []matrixMark  `json:"marks"`
}

type matrixCheck struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Cell   string `json:"cell"` // the verdict over all nodes
	Reason string `json:"reason,omitempty"`
}

// matrixRow holds the nodes that have the same verdict in every check. A row without Nodes is the
// launching machine or the policy.
type matrixRow struct {
	Label string `json:"label"`
	Nodes []int  `json:"nodes"`
	Cells string `json:"cells"` // one letter for each check
}

// matrixMark links cells to the finding that they show.
type matrixMark struct {
	Check  int    `json:"check"`
	Nodes  []int  `json:"nodes"` // empty for the launching machine and the policy
	Anchor string `json:"anchor"`
}

// These are the letters of cells. A check names the nodes on which something is wrong. All nodes
// have passed only if the check passes as a whole. If the check fails on other nodes, a node is
// clear, which says less. If the check is unknown, a node is partial, which says nothing. What
// another check explains is not repeated for each node.
const (
	cellFail    = 'f'
	cellWarn    = 'w'
	cellUnknown = 'u'
	cellPass    = 'p'
	cellWaived  = 'v' // the policy does not count the finding
	cellClear   = 'c' // the check found nothing here, but something on other nodes
	cellPartial = 'n' // the check has no result for some nodes
	cellSkip    = 's'
	cellOther   = 'o' // the check does not apply to this row
)

var cellOf = map[checks.Verdict]byte{
	checks.Fail: cellFail, checks.Warn: cellWarn, checks.Unknown: cellUnknown, checks.Pass: cellPass, checks.Skip: cellSkip,
}

// heaviest lists the letters of findings, the gravest first.
const heaviest = "fuwv"

func newPageData(r checks.Report) pageData {
	d := pageData{Names: []string{}, Checks: []matrixCheck{}, Rows: []matrixRow{}, Marks: []matrixMark{}}
	for _, node := range r.Nodes {
		d.Names = append(d.Names, node.Name)
	}
	for _, o := range r.Checks {
		d.Checks = append(d.Checks, matrixCheck{ID: o.Check, Title: titleOf(o.Check), Cell: string(cellOf[o.Verdict]), Reason: o.Reason})
	}
	b := newBoard(r)
	var waived []matrixMark
	for i, w := range r.Waived { // written first, because findings outweigh them
		waived = append(waived, b.put(w.Finding, cellWaived, waiverAnchor(i))...)
	}
	w := report.WordsOf(r)
	unknowns := w.Unknowns()
	_, drift := w.Drift(false)
	for i, f := range r.Findings {
		if i = w.ShownAt(i); report.HasChanges(r.Findings[i]) {
			i = drift // one block shows all changes since the baseline
		}
		d.Marks = append(d.Marks, b.put(f, cellOf[f.Verdict], anchor(w, unknowns, i, f))...)
	}
	d.Marks = append(d.Marks, waived...)
	for _, row := range []matrixRow{{Label: "launching machine", Cells: string(b.head)}, {Label: "policy", Cells: string(b.policy)}} {
		if strings.Trim(row.Cells, string(cellOther)) != "" {
			row.Nodes = []int{}
			d.Rows = append(d.Rows, row)
		}
	}
	d.Rows = append(d.Rows, foldRows(r.Nodes, b.cells)...)
	return d
}

// board collects the cells while findings are written into them.
type board struct {
	node, check map[string]int // indexes by name and by ID
	cells       [][]byte       // letters by node and check
	head        []byte         // cells of the launching machine
	policy      []byte         // cells of the policy, for the check that covers the policy
}

func newBoard(r checks.Report) *board {
	b := &board{map[string]int{}, map[string]int{}, make([][]byte, len(r.Nodes)), make([]byte, len(r.Checks)), make([]byte, len(r.Checks))}
	for i, node := range r.Nodes {
		b.node[node.Name] = i
		b.cells[i] = make([]byte, len(r.Checks))
	}
	for column, o := range r.Checks {
		b.check[o.Check] = column
		check, _ := catalogue.Lookup(o.Check) // an empty check if only another version of preflight has it
		b.head[column], b.policy[column] = cellOther, cellOther
		switch {
		case check.OnHead:
			b.head[column] = cellOf[o.Verdict]
		case check.ID == policyCheck:
			b.policy[column] = cellOf[o.Verdict]
		}
		for i := range r.Nodes {
			b.cells[i][column] = untouched(o, check, &r.Nodes[i])
		}
	}
	return b
}

// put writes a finding into its cells and returns the marks that link the cells to the finding. It
// returns no marks if the check did not run, as in a report that was shortened by hand.
func (b *board) put(f checks.Finding, letter byte, anchor string) []matrixMark {
	column, judged := b.check[f.Check]
	if !judged {
		return nil
	}
	mark := matrixMark{Check: column, Nodes: []int{}, Anchor: anchor}
	switch {
	case len(f.Nodes) > 0:
	case f.Check == policyCheck:
		b.policy[column] = heavier(b.policy[column], letter)
	default:
		b.head[column] = heavier(b.head[column], letter)
	}
	for _, name := range f.Nodes {
		i, known := b.node[name]
		if !known {
			continue
		}
		mark.Nodes = append(mark.Nodes, i)
		if letter == cellWaived {
			b.cells[i][column] = cellWaived // show the waived finding, even if the node is unknown for other reasons
			continue
		}
		b.cells[i][column] = heavier(b.cells[i][column], letter)
	}
	return []matrixMark{mark}
}

// untouched returns the cell of a node that no finding of the check names.
func untouched(o checks.Outcome, check checks.Check, node *facts.Node) byte {
	switch verdict, judges := check.Unnamed(o, node); {
	case !judges:
		return cellOther
	case verdict != "":
		return cellOf[verdict]
	case o.Verdict == checks.Unknown:
		return cellPartial
	}
	return cellClear
}

// heavier returns the letter that a cell shows after a finding was added.
func heavier(has, adds byte) byte {
	for _, letter := range []byte(heaviest) {
		if has == letter || adds == letter {
			return letter
		}
	}
	return has
}

// anchor returns the anchor of a finding on the page.
func anchor(w report.Words, unknowns []report.Unknown, number int, f checks.Finding) string {
	if f.Verdict != checks.Unknown {
		return findingAnchor(number)
	}
	nodes := w.Nodes(f.Nodes)
	return unknownAnchor(slices.IndexFunc(unknowns, func(u report.Unknown) bool { return u.Summary == f.Summary && u.Names == nodes }))
}

// foldRows combines nodes with equal cells into one row. The rows are in the hostfile order of
// their first nodes.
func foldRows(nodes []facts.Node, cells [][]byte) (rows []matrixRow) {
	all := make([]int, len(nodes))
	for i := range all {
		all[i] = i
	}
	for _, alike := range text.GroupBy(all, func(i int) string { return string(cells[i]) }) {
		names := text.Map(alike.All, func(i int) string { return nodes[i].Name })
		rows = append(rows, matrixRow{hostfile.Fold(names), alike.All, alike.Key})
	}
	return rows
}
