package report

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/hostfile"
)

// Changed is what differs between two looks at a fleet, as JSON has it: one entry for each
// fact of each node, none folded, and one for each section of a node that only one of the
// looks saw.
type Changed struct {
	Schema      int                  `json:"schema"`
	Changes     []checks.Change      `json:"changes"`
	NotCompared []checks.NotCompared `json:"not_compared"`
}

// unchanged is what may be said where there is no change to list.
func (c Changed) unchanged() string {
	if len(c.NotCompared) > 0 {
		return "nothing changed of what could be compared"
	}
	return "nothing changed"
}

// ChangesText lists what changed between two looks at a fleet, and what could not be
// compared. The same on several nodes is one row.
func ChangesText(w io.Writer, c Changed, style Style) error {
	p := &page{style: style}
	rows := changedRows(c.Changes, style.Verbose)
	if len(rows) == 0 {
		p.line("%s", c.unchanged())
	} else {
		var cells [][]string
		for _, row := range rows {
			cells = append(cells, []string{p.nodes(row.nodes), Escape(row.fact), row.before, row.after})
		}
		p.line("%s", p.table([]string{"nodes", "fact", "before", "after"}, []string{"", "", "before ", "after "}, cells))
	}
	for _, blind := range blindRows(c.NotCompared) {
		p.line("")
		p.wrapped("", Escape("not compared: "+blind.what+" on "+hostfile.Fold(blind.nodes)+": "+blind.why))
	}
	return p.writeTo(w)
}

// ChangesMarkdown is ChangesText as a table of GitHub Flavored Markdown, in which nothing
// that a node said is markup. What does not fit in a comment is left out, and a remark
// says how much.
func ChangesMarkdown(w io.Writer, c Changed) error {
	s := &summary{}
	s.add(markdownStart)
	rows := changedRows(c.Changes, false)
	if len(rows) == 0 {
		said := c.unchanged()
		s.add("\n" + strings.ToUpper(said[:1]) + said[1:] + ".\n")
	} else {
		s.add("\n" + row("nodes", "fact", "before", "after") + row("---", "---", "---", "---"))
	}
	for _, r := range rows {
		fact := ""
		if r.fact != "" {
			fact = code(r.fact)
		}
		s.add(row(prose(s.nodes(r.nodes)), fact, prose(r.before), prose(r.after)))
	}
	if blind := blindRows(c.NotCompared); blind != nil {
		s.add("\n" + row("nodes", "not compared", "why") + row("---", "---", "---"))
		for _, b := range blind {
			s.add(row(prose(s.nodes(b.nodes)), prose(b.what), prose(b.why)))
		}
	}
	text := s.out.String()
	if s.left > 0 {
		text += "\n**Cut here:** " + plural(s.left, "row") + " of these changes do not fit in a comment; preflight diff prints them all.\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// blindRow is what could not be compared on some nodes, for one reason.
type blindRow struct {
	nodes     []string
	what, why string
}

// blindRows folds the sections of each node, and then the nodes that share all of it.
func blindRows(all []checks.NotCompared) (rows []blindRow) {
	var each []blindRow
	ofNode, alike := map[[2]string]int{}, map[[2]string]int{}
	for _, n := range all {
		what, why := cmp.Or(string(n.Section), "anything"), n.Reason
		if n.Section != "" {
			why = map[bool]string{true: "not seen before: ", false: "not seen after: "}[n.Earlier] + n.Reason
		}
		if at, seen := ofNode[[2]string{n.Node, why}]; seen {
			each[at].what += ", " + what
			continue
		}
		ofNode[[2]string{n.Node, why}] = len(each)
		each = append(each, blindRow{[]string{n.Node}, what, why})
	}
	for _, one := range each {
		if at, seen := alike[[2]string{one.what, one.why}]; seen {
			rows[at].nodes = append(rows[at].nodes, one.nodes...)
			continue
		}
		alike[[2]string{one.what, one.why}] = len(rows)
		rows = append(rows, one)
	}
	return rows
}

// changedRow is one change and the nodes that it happened on.
type changedRow struct {
	nodes               []string
	fact, before, after string // fact is "" for the node itself, values are as [Value] has them
}

// changedRows folds the changes of each node, unless all are asked for, and then those
// that several nodes share.
func changedRows(changes []checks.Change, all bool) (rows []changedRow) {
	at := map[string]int{}
	for len(changes) > 0 {
		node := changes[0].Node
		end := slices.IndexFunc(changes, func(c checks.Change) bool { return c.Node != node })
		if end < 0 {
			end = len(changes)
		}
		own := changes[:end]
		if !all {
			own = checks.FoldChanges(own)
		}
		for _, c := range own {
			r := changedRow{fact: c.Fact, before: Value(c.Fact, c.Before), after: Value(c.Fact, c.After)}
			key := strings.Join([]string{r.fact, r.before, r.after}, "\x00")
			i, seen := at[key]
			if !seen {
				i = len(rows)
				at[key] = i
				rows = append(rows, r)
			}
			rows[i].nodes = append(rows[i].nodes, node)
		}
		changes = changes[end:]
	}
	return rows
}
