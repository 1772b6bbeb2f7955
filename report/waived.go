package report

import (
	"fmt"
	"strings"

	"preflight/checks"
)

// waived has a line for each finding that a policy has told not to count: out of the
// verdict is not out of sight.
func (p *page) waived(all []checks.Waived) {
	if len(all) > 0 {
		p.line("")
	}
	for _, w := range all {
		line := fmt.Sprintf("%s  %s: %s (%s)", w.Check, p.nodes(w.Nodes), w.Summary, promised(w))
		p.line("%s  %s", p.faint("waived"), Escape(strings.Join(strings.Fields(line), " ")))
	}
}

// promised is how long a finding is waived, by whom and why.
func promised(w checks.Waived) string {
	text := "until " + w.Until
	if w.Owner != "" {
		text += ", by " + w.Owner
	}
	return text + ": " + w.Reason
}
