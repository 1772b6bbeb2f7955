package report

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"preflight/checks"
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
	for name, render := range map[string]func(io.Writer, checks.Report) error{
		"junit": JUnit, "markdown": MarkdownSummary, "github": GitHub, "nagios": Nagios, "prometheus": Prometheus, "good hosts": GoodHosts, "bad hosts": BadHosts,
	} {
		for which, r := range cases() {
			if which == "hostile" && strings.Contains(name, "hosts") {
				continue // its names are refused
			}
			if !Wrote(strings.NewReader(rendered(t, render, r))) {
				t.Errorf("%s of %s is not known for a report", name, which)
			}
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
		// What others write in the same formats is theirs.
		xml.Header + `<testsuites name="go test"`:            false,
		"<!-- preflight notes -->\n":                         false,
		"<!-- preflight report -->\n\nMy notes.\n":           false,
		"<!-- preflight report -->\n## FAIL: mine":           false,
		"::notice title=lint::all well\n":                    false,
		"PREFLIGHT CHECKLIST - fuel | oil\n":                 false,
		"PREFLIGHT OK - ready | time=1s\nmine\n":             false,
		"PREFLIGHT OK - ready | time=1s\n\n":                 false,
		"PREFLIGHT OK - ready | ti":                          true, // cut short
		"PREFLIGHT OK - " + strings.Repeat("x", mostOfStart): false,
		"# HELP node_load1 1m load average.\n":               false,
		"# good hosts, by me\nw1 slots=8\n":                  false,
	} {
		if got := Wrote(strings.NewReader(text)); got != want {
			t.Errorf("Wrote(%.30q) = %t", text, got)
		}
	}
}
