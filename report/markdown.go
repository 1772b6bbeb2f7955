package report

import (
	"fmt"
	"io"
	"strings"

	"preflight/checks"
)

// CatalogueMarkdown writes the catalogue as a page: docs/checks.md is this.
func CatalogueMarkdown(w io.Writer, catalogue []checks.Check) error {
	var out strings.Builder
	out.WriteString("# The checks\n\nWritten by `make docs` from the catalogue; edit the checks, not this page.\n\n")
	out.WriteString("| check | weighs | passes when |\n| --- | --- | --- |\n")
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
