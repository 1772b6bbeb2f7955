package report

import (
	"io"
	"strings"

	"preflight/checks"
)

// Catalogue lists the checks: what each weighs and when it passes.
func Catalogue(w io.Writer, catalogue []checks.Check, style Style) error {
	p := &page{style: style}
	widest := 0
	for _, check := range catalogue {
		widest = max(widest, len(check.ID))
	}
	row := func(id, severity, title string) {
		for i, line := range p.split(title, widest+len("  warning  ")) {
			p.line("%-*s  %-7s  %s", widest, firstOnly(i, id), firstOnly(i, severity), line)
		}
	}
	row("check", "weighs", "passes when")
	for _, check := range catalogue {
		row(check.ID, string(check.Severity), check.Title)
	}
	_, err := io.WriteString(w, p.out.String())
	return err
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
	p.field("weighs", string(check.Severity))
	p.field("looks at", strings.Join(needs, ", ")+" "+where)
	p.field("or see", check.WouldSee)
	_, err := io.WriteString(w, p.out.String())
	return err
}
