package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
)

// leftOut is what drift did not compare because nobody was to look at it, each once.
type leftOut []string

// note parts what was not seen on a node: what is a gap becomes findings, the rest is left
// out. A section that is missing now is told in the words of every other check that misses it.
func (l *leftOut) note(unseen []NotCompared, node *facts.Node) (findings []Finding) {
	for _, u := range unseen {
		told := fmt.Sprintf("%s: %s", u.Section, u.Reason)
		switch {
		case u.ByChoice:
			if told = fmt.Sprintf("%s (%s)", u.Section, u.Reason); !slices.Contains(*l, told) {
				*l = append(*l, told)
			}
			continue
		case u.Earlier:
			told = "the baseline has not seen " + told
		}
		findings = append(findings, unknown(node, told))
	}
	return findings
}

// finding is what a pass does not hold for, none where all was compared.
func (l leftOut) finding() []Finding {
	if l == nil {
		return nil
	}
	return []Finding{{Verdict: Pass, Summary: "not compared: " + strings.Join(l, ", ")}}
}
