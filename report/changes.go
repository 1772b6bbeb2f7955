package report

import (
	"io"
	"slices"

	"preflight/checks"
)

// ChangesText lists what changed between two looks at a fleet. The same change
// on several nodes is one row.
func ChangesText(w io.Writer, changes []checks.Change, style Style) error {
	p := &page{style: style}
	type row struct{ fact, before, after string }
	nodes := map[row][]string{}
	var order []row
	for len(changes) > 0 {
		node := changes[0].Node
		end := slices.IndexFunc(changes, func(c checks.Change) bool { return c.Node != node })
		if end < 0 {
			end = len(changes)
		}
		for _, d := range folded(changes[:end], style) {
			key := row{d.Fact, Value(d.Fact, d.Groups[0].Value), Value(d.Fact, d.Groups[1].Value)}
			if nodes[key] == nil {
				order = append(order, key)
			}
			nodes[key] = append(nodes[key], node)
		}
		changes = changes[end:]
	}
	if len(order) == 0 {
		p.line("nothing changed")
	} else {
		var rows [][]string
		for _, key := range order {
			rows = append(rows, []string{p.nodes(nodes[key]), Escape(key.fact), key.before, key.after})
		}
		p.line("%s", p.table([]string{"nodes", "fact", "before", "after"}, []string{"", "", "before ", "after "}, rows))
	}
	_, err := io.WriteString(w, p.out.String())
	return err
}

// folded is the changes of one node, as if before and after were two nodes that
// differ: a GPU that is gone is one row, unless all are asked for.
func folded(changes []checks.Change, style Style) []checks.FactDiff {
	var diffs []checks.FactDiff
	for _, c := range changes {
		diffs = append(diffs, checks.FactDiff{Fact: c.Fact, Groups: []checks.FactGroup{
			{Value: c.Before, Nodes: []string{"before"}}, {Value: c.After, Nodes: []string{"after"}},
		}})
	}
	if style.Verbose {
		return diffs
	}
	return foldSiblings(foldEntries(diffs))
}
