package report

import (
	"slices"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
)

// pageData is what the page's script draws from.
type pageData struct {
	// Names are the nodes in hostfile order, as they are: the script escapes what it shows.
	Names  []string      `json:"names"`
	Checks []matrixCheck `json:"checks"`
	Rows   []matrixRow   `json:"rows"`
	Marks  []matrixMark  `json:"marks"`
}

// matrixCheck is a column.
type matrixCheck struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Cell   string `json:"cell"` // of the whole fleet
	Reason string `json:"reason,omitempty"`
}

// matrixRow is nodes about which all checks say alike. One without Nodes is the
// launching machine.
type matrixRow struct {
	Label string `json:"label"`
	Nodes []int  `json:"nodes"`
	Cells string `json:"cells"` // one letter a check
}

// matrixMark leads from cells to the finding that they are about.
type matrixMark struct {
	Check  int    `json:"check"`
	Nodes  []int  `json:"nodes"` // none: the launching machine
	Anchor string `json:"anchor"`
}

// The letters of cells. A check says of which nodes something is wrong, and only
// when it passes as a whole that all others are right: else they are clear, which
// is less.
const (
	cellFail    = 'f'
	cellWarn    = 'w'
	cellUnknown = 'u'
	cellPass    = 'p'
	cellClear   = 'c' // nothing was found here, and something elsewhere
	cellSkip    = 's'
	cellOther   = 'o' // a check of the launching machine, or of the nodes
)

var cellOf = map[checks.Verdict]byte{
	checks.Fail: cellFail, checks.Warn: cellWarn, checks.Unknown: cellUnknown, checks.Pass: cellPass, checks.Skip: cellSkip,
}

// heaviest are letters of findings, the one that counts first.
const heaviest = "fuw"

func newPageData(r checks.Report) pageData {
	d := pageData{Names: []string{}, Checks: []matrixCheck{}, Rows: []matrixRow{}, Marks: []matrixMark{}}
	at := map[string]int{}
	for i, node := range r.Nodes {
		at[node.Name] = i
		d.Names = append(d.Names, node.Name)
	}
	column := map[string]int{}
	for i, o := range r.Checks {
		column[o.Check] = i
		d.Checks = append(d.Checks, matrixCheck{ID: o.Check, Title: catalogued(o.Check).Title, Cell: string(cellOf[o.Verdict]), Reason: o.Reason})
	}
	cells, head := backdrop(r)
	p := &page{fleet: len(r.Nodes)}
	blocks := p.blind(r.Findings)
	for number, f := range r.Findings {
		check, judged := column[f.Check]
		if !judged {
			continue // of a report that somebody cut
		}
		mark := matrixMark{Check: check, Nodes: []int{}, Anchor: anchor(p, blocks, number, f)}
		if len(f.Nodes) == 0 {
			head[check] = heavier(head[check], cellOf[f.Verdict])
		}
		for _, name := range f.Nodes {
			if node, known := at[name]; known {
				cells[node][check] = heavier(cells[node][check], cellOf[f.Verdict])
				mark.Nodes = append(mark.Nodes, node)
			}
		}
		d.Marks = append(d.Marks, mark)
	}
	if slices.ContainsFunc(head, func(c byte) bool { return c != cellOther }) {
		d.Rows = append(d.Rows, matrixRow{Label: "launching machine", Nodes: []int{}, Cells: string(head)})
	}
	d.Rows = append(d.Rows, foldRows(r.Nodes, cells)...)
	return d
}

// backdrop is every cell before findings are written into it.
func backdrop(r checks.Report) (cells [][]byte, head []byte) {
	head = make([]byte, len(r.Checks))
	cells = make([][]byte, len(r.Nodes))
	for i := range cells {
		cells[i] = make([]byte, len(r.Checks))
	}
	for column, o := range r.Checks {
		check := catalogued(o.Check)
		head[column] = cellOther
		if check.OnHead {
			head[column] = cellOf[o.Verdict]
		}
		for i := range r.Nodes {
			cells[i][column] = untouched(o, check, &r.Nodes[i])
		}
	}
	return cells, head
}

// untouched is the cell of a node that no finding of the check names.
func untouched(o checks.Outcome, check checks.Check, node *facts.Node) byte {
	lacks := func(s facts.Section) bool { return !node.Has(s) }
	switch {
	case o.Verdict == checks.Skip:
		return cellSkip
	case check.OnHead:
		return cellOther
	case !node.Reached, slices.ContainsFunc(check.Needs, lacks):
		return cellUnknown
	case o.Verdict == checks.Pass:
		return cellPass
	}
	return cellClear
}

// heavier is the letter that a cell shows for what it has and what a finding adds.
func heavier(has, adds byte) byte {
	for _, letter := range []byte(heaviest) {
		if has == letter || adds == letter {
			return letter
		}
	}
	return has
}

// anchor is where on the page a finding is told.
func anchor(p *page, blocks []blindness, number int, f checks.Finding) string {
	if f.Verdict != checks.Unknown {
		return findingAnchor(number)
	}
	nodes := p.nodes(f.Nodes)
	at := slices.IndexFunc(blocks, func(b blindness) bool { return b.reason == f.Summary && b.nodes == nodes })
	return blindAnchor(at)
}

// foldRows makes one row of the nodes whose cells are alike, in hostfile order of
// their first nodes.
func foldRows(nodes []facts.Node, cells [][]byte) (rows []matrixRow) {
	at := map[string]int{}
	var names [][]string
	for i, node := range nodes {
		key := string(cells[i])
		row, seen := at[key]
		if !seen {
			row = len(rows)
			at[key] = row
			rows, names = append(rows, matrixRow{Cells: key}), append(names, nil)
		}
		rows[row].Nodes = append(rows[row].Nodes, i)
		names[row] = append(names[row], node.Name)
	}
	for i := range rows {
		rows[i].Label = hostfile.Fold(names[i])
	}
	return rows
}
