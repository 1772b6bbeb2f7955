package report

import (
	"bytes"
	"strings"
	"testing"
)

func TestWroteKnowsOurReports(t *testing.T) {
	for name, style := range map[string]Style{"text": {}, "quiet": {Quiet: true}} {
		var text bytes.Buffer
		if err := Text(&text, failing(), style); err != nil {
			t.Fatal(err)
		}
		if !Wrote(&text) {
			t.Errorf("%s is not known for a report", name)
		}
	}
	var out bytes.Buffer
	if err := JSON(&out, failing()); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		out.String():              true,
		out.String()[:20]:         true, // cut short by a full disk
		`{"schema":9}`:            true,
		"":                        true,
		"w1 slots=8\nw2 slots=8":  false,
		"{":                       false,
		`{"schema":"x"}`:          false,
		`{"name":1,"schema":1}`:   false,
		"PASS  is my first line":  false,
		"my notes\n4 nodes, idle": false,
	} {
		if got := Wrote(strings.NewReader(text)); got != want {
			t.Errorf("Wrote(%.30q) = %t", text, got)
		}
	}
}
