package report

import (
	"fmt"
	"io"
	"strings"

	"preflight/checks"
)

// Catalogue lists the checks: the severity of each and when it passes.
func Catalogue(w io.Writer, catalogue []checks.Check, style Style) error {
	p := &page{style: style}
	rows := [][]string{{"check", "severity", "passes when"}}
	for _, check := range catalogue {
		rows = append(rows, []string{check.ID, string(check.Severity), check.Title})
	}
	p.entries(rows)
	return p.writeTo(w)
}

// Check explains one check.
func Check(w io.Writer, check checks.Check, style Style) error {
	p := &page{style: style}
	p.wrapped("", check.ID+": passes when "+check.Title)
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
	if check.FromPolicy {
		needs = []string{"what the policy names,"}
	}
	p.field("severity", string(check.Severity))
	p.field("looks at", strings.Join(needs, ", ")+" "+where)
	p.field("symptom", check.WouldSee)
	return p.writeTo(w)
}

// CatalogueMarkdown writes the catalogue as a page: docs/checks.md is this.
func CatalogueMarkdown(w io.Writer, catalogue []checks.Check) error {
	var out strings.Builder
	out.WriteString("# The checks\n\nWritten by `make docs` from the catalogue; edit the checks, not this page.\n\n")
	out.WriteString("| check | severity | passes when |\n| --- | --- | --- |\n")
	for _, check := range catalogue {
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s |\n", check.ID, check.ID, check.Severity, check.Title)
	}
	for _, check := range catalogue {
		fmt.Fprintf(&out, "\n## %s\n\nPasses when %s.\n\n%s\n", check.ID, check.Title, check.Doc)
		if check.WouldSee != "" {
			fmt.Fprintf(&out, "\nWithout it a launch may end with:\n\n```text\n%s\n```\n", check.WouldSee)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
