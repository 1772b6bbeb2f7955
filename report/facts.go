package report

import (
	"fmt"
	"io"
	"strings"

	"preflight/facts"
)

// statedAs is what a policy may state of a fact.
func statedAs(d facts.Description) string {
	switch {
	case d.Kind == facts.List:
		return `a list: "absent" alone`
	case d.Kind == facts.Text:
		return "text or version"
	case d.Kind == facts.Truth:
		return "true or false"
	case d.Unit == "bytes":
		return "size: 16GiB"
	case d.Unit == "bit/s":
		return "rate: 100Gbit/s"
	case d.Unit != "":
		return "number, in " + d.Unit
	}
	return "number"
}

// FactNames lists the facts that a policy can state, with what it can state of each.
func FactNames(w io.Writer, all []facts.Description, style Style) error {
	p := &page{style: style}
	rows := [][]string{{"fact", "value"}}
	for _, d := range all {
		rows = append(rows, []string{d.Path, statedAs(d)})
	}
	p.entries(rows)
	return p.writeTo(w)
}

// FactNamesMarkdown writes the same as a page, a table for each section.
func FactNamesMarkdown(w io.Writer, all []facts.Description) error {
	var out strings.Builder
	out.WriteString("# Facts\n\nWhat [preflight.yaml](policy.md) can state of nodes, `preflight diff` compares and the check `drift` holds against a baseline;\n" +
		"written by `preflight facts --format markdown`. `*` stands for the name of an entry: an interface, a package, a GPU's\n" +
		"index. Written in a policy it means each of them.\n")
	section := ""
	for _, d := range all {
		if own, _, _ := strings.Cut(d.Path, "."); own != section {
			section = own
			fmt.Fprintf(&out, "\n## %s\n\n| fact | value |\n| --- | --- |\n", section)
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", d.Path, statedAs(d))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
