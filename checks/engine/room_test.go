// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"preflight/checks"
)

// TestFitting: however much is found, a report has room for the gravest of it, and for one of
// each verdict.
func TestFitting(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	var findings []checks.Finding
	for i := range 5000 {
		findings = append(findings, checks.Finding{Check: "c", Verdict: checks.Fail, Nodes: []string{"w1"}, Summary: fmt.Sprint(i), Got: long, Want: long})
	}
	findings = append(findings, checks.Finding{Check: "c", Verdict: checks.Unknown, Summary: "why"}, checks.Finding{Check: "c", Verdict: checks.Warn, Summary: "too"})
	kept, leftOut := fitting(findings, 4)
	if len(kept)+leftOut != 5002 || kept[0].Summary != "0" || kept[len(kept)-2].Summary != "why" || kept[len(kept)-1].Summary != "too" {
		t.Errorf("%d kept, %d left out", len(kept), leftOut)
	}
	size := 0
	for _, f := range kept {
		size += len(f.Got) + len(f.Want)
	}
	if most := roomOfReport + 5*roomOfNode; size > most {
		t.Errorf("%d bytes are kept, of at most %d", size, most)
	}
}

func TestShorten(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	f := checks.Finding{Summary: "as it is", Got: "x" + long, WouldSee: long, Fix: []string{"echo " + long, "true"}, Notes: []string{long}, Changes: make([]checks.Change, 1<<20)}
	shorten(&f, 4)
	for _, words := range append([]string{f.Summary, f.Got, f.WouldSee}, f.Notes...) {
		if len(words) > longestWords+40 || !utf8.ValidString(words) {
			t.Errorf("%d bytes: %.40s … %s", len(words), words, words[len(words)-40:])
		}
	}
	if !strings.HasSuffix(f.Got, " bytes more)") || f.Summary != "as it is" {
		t.Errorf("got %s, summary %s", f.Got[len(f.Got)-40:], f.Summary)
	}
	// Half a command may do anything: it goes as a whole.
	if len(f.Fix) != 1 || f.Fix[0] != "true" || !strings.Contains(f.Notes[1], "is left out") {
		t.Errorf("fix %.60q, notes %.60q", f.Fix, f.Notes)
	}
	if len(f.Changes) != mostChanges+4 {
		t.Errorf("%d changes", len(f.Changes))
	}
}
