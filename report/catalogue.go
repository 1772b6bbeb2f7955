package report

import (
	"io"
	"strings"

	"preflight/checks"
)

// Catalogue lists the checks, one line each.
func Catalogue(w io.Writer, catalogue []checks.Check, style Style) error {
	p := &page{style: style}
	var rows [][]string
	for _, check := range catalogue {
		rows = append(rows, []string{check.ID, string(check.Severity), check.Title})
	}
	p.line("%s", p.table([]string{"check", "weighs", "passes when"}, rows))
	_, err := io.WriteString(w, p.out.String())
	return err
}

// Check explains one check.
func Check(w io.Writer, check checks.Check, style Style) error {
	p := &page{style: style}
	p.line("%s: %s", check.ID, check.Title)
	p.line("")
	p.wrapped("", check.Doc)
	p.line("")
	var needs []string
	for _, section := range check.Needs {
		needs = append(needs, string(section))
	}
	where := "on every node"
	if check.OnHead {
		where = "on the launching machine"
	}
	p.field("weighs", string(check.Severity))
	p.field("looks at", strings.Join(needs, ", ")+" "+where)
	p.field("or see", check.WouldSee)
	_, err := io.WriteString(w, p.out.String())
	return err
}
