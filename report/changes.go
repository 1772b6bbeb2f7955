package report

import (
	"io"

	"preflight/checks"
)

// ChangesText lists what changed between two looks at a fleet. The same change
// on several nodes is one row.
func ChangesText(w io.Writer, changes []checks.Change, style Style) error {
	p := &page{style: style}
	type row struct{ fact, before, after string }
	nodes := map[row][]string{}
	var order []row
	for _, c := range changes {
		key := row{c.Fact, Value(c.Fact, c.Before), Value(c.Fact, c.After)}
		if nodes[key] == nil {
			order = append(order, key)
		}
		nodes[key] = append(nodes[key], c.Node)
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
