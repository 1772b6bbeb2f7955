package report

import (
	"io"
	"slices"
	"strings"

	"preflight/checks"
)

// Changed is what differs between two looks at a fleet, as JSON has it: one entry for each
// fact of each node, none folded.
type Changed struct {
	Schema  int             `json:"schema"`
	Changes []checks.Change `json:"changes"`
}

// ChangesText lists what changed between two looks at a fleet. The same change
// on several nodes is one row.
func ChangesText(w io.Writer, changes []checks.Change, style Style) error {
	p := &page{style: style}
	rows := changedRows(changes, style.Verbose)
	if len(rows) == 0 {
		p.line("nothing changed")
	} else {
		var cells [][]string
		for _, row := range rows {
			cells = append(cells, []string{p.nodes(row.nodes), Escape(row.fact), row.before, row.after})
		}
		p.line("%s", p.table([]string{"nodes", "fact", "before", "after"}, []string{"", "", "before ", "after "}, cells))
	}
	_, err := io.WriteString(w, p.out.String())
	return err
}

// ChangesMarkdown is ChangesText as a table of GitHub Flavored Markdown, in which nothing
// that a node said is markup. What does not fit in a comment is left out, and a remark
// says how much.
func ChangesMarkdown(w io.Writer, changes []checks.Change) error {
	s := &summary{}
	s.add(markdownStart)
	rows := changedRows(changes, false)
	if len(rows) == 0 {
		s.add("\nNothing changed.\n")
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
	text := s.out.String()
	if s.left > 0 {
		text += "\n**Cut here:** " + plural(s.left, "row") + " of these changes do not fit in a comment; preflight diff prints them all.\n"
	}
	_, err := io.WriteString(w, text)
	return err
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
		for _, d := range folded(changes[:end], all) {
			r := changedRow{fact: d.Fact, before: Value(d.Fact, d.Groups[0].Value), after: Value(d.Fact, d.Groups[1].Value)}
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

// folded is the changes of one node, as if before and after were two nodes that
// differ: facts told apart by a number alone are one row, unless all are asked for.
func folded(changes []checks.Change, all bool) []checks.FactDiff {
	var diffs []checks.FactDiff
	for _, c := range changes {
		diffs = append(diffs, checks.FactDiff{Fact: c.Fact, Groups: []checks.FactGroup{
			{Value: c.Before, Nodes: []string{"before"}}, {Value: c.After, Nodes: []string{"after"}},
		}})
	}
	if all {
		return diffs
	}
	return foldSiblings(diffs)
}
