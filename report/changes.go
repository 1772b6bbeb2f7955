package report

import (
	"cmp"
	"io"
	"strings"

	"preflight/checks/agreement"
	"preflight/hostfile"
)

// Changed is what differs between two looks at a fleet, as JSON has it: one entry for each
// fact of each node, none folded, and one for each section of a node that only one of the
// looks saw.
type Changed struct {
	Schema      int                     `json:"schema"`
	Changes     []agreement.Change      `json:"changes"`
	NotCompared []agreement.NotCompared `json:"not_compared"`
}

// Unchanged is what may be said where there is no change to list.
func (c Changed) Unchanged() string {
	if len(c.NotCompared) > 0 {
		return "nothing changed of what could be compared"
	}
	return "nothing changed"
}

// ChangesText lists what changed between two looks at a fleet, and what could not be
// compared. The same on several nodes is one row.
func ChangesText(w io.Writer, c Changed, style Style) error {
	p := &page{style: style}
	rows := c.Rows(style.Verbose)
	if len(rows) == 0 {
		p.line("%s", c.Unchanged())
	} else {
		var cells [][]string
		for _, row := range rows {
			cells = append(cells, []string{p.Nodes(row.Nodes), Escape(row.Fact), row.Before, row.After})
		}
		p.line("%s", p.table([]string{"nodes", "fact", "before", "after"}, []string{"", "", "before ", "after "}, cells))
	}
	for _, unseen := range c.Unseen() {
		p.line("")
		p.wrapped("", Escape("not compared: "+unseen.What+" on "+hostfile.Fold(unseen.Nodes)+": "+unseen.Why))
	}
	return p.writeTo(w)
}

// Unseen is what could not be compared on some nodes, for one reason.
type Unseen struct {
	Nodes     []string
	What, Why string
}

// Unseen folds the sections of each node, and then the nodes that share all of it.
func (c Changed) Unseen() (all []Unseen) {
	reason := func(n agreement.NotCompared) [2]string {
		if n.Section == "" {
			return [2]string{n.Node, n.Reason}
		}
		return [2]string{n.Node, map[bool]string{true: "not seen before: ", false: "not seen after: "}[n.Earlier] + n.Reason}
	}
	var each []Unseen
	for _, one := range GroupBy(c.NotCompared, reason) {
		var sections []string
		for _, n := range one.All {
			sections = append(sections, cmp.Or(string(n.Section), "anything"))
		}
		each = append(each, Unseen{[]string{one.Key[0]}, strings.Join(sections, ", "), one.Key[1]})
	}
	for _, alike := range GroupBy(each, func(u Unseen) [2]string { return [2]string{u.What, u.Why} }) {
		one := alike.All[0]
		for _, other := range alike.All[1:] {
			one.Nodes = append(one.Nodes, other.Nodes...)
		}
		all = append(all, one)
	}
	return all
}

// Row is one change and the nodes that it happened on. Fact is "" for the node itself,
// values are as [Value] has them.
type Row struct {
	Nodes               []string
	Fact, Before, After string
}

// Rows folds the changes of each node, unless all are asked for, and then those that
// several nodes share.
func (c Changed) Rows(all bool) (rows []Row) {
	var each []Row
	for _, node := range GroupBy(c.Changes, func(c agreement.Change) string { return c.Node }) {
		own := node.All
		if !all {
			own = agreement.FoldChanges(own)
		}
		for _, c := range own {
			each = append(each, Row{[]string{node.Key}, c.Fact, Value(c.Fact, c.Before), Value(c.Fact, c.After)})
		}
	}
	for _, alike := range GroupBy(each, func(r Row) [3]string { return [3]string{r.Fact, r.Before, r.After} }) {
		row := alike.All[0]
		for _, other := range alike.All[1:] {
			row.Nodes = append(row.Nodes, other.Nodes...)
		}
		rows = append(rows, row)
	}
	return rows
}
