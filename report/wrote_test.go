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
		if Wrote(&text) != Rendering {
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
			if Wrote(strings.NewReader(rendered(t, render, r))) != Rendering {
				t.Errorf("%s of %s is not known for a report", name, which)
			}
		}
	}
	var out bytes.Buffer
	if err := JSON(&out, failing()); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]Kept{
		out.String():              SavedRun,
		out.String()[:20]:         Rendering, // cut short by a full disk
		`{"schema":1,"nodes":[]}`: Rendering, // as predict has it
		`{"schema":1,"normalized":true,"nodes":[{}]}`:                NormalizedSnapshot,
		`{"schema":1,"version":"v1","normalized":true,"nodes":[{}]}`: SavedRun, // a snapshot that was judged
		`{"schema":1,"head":{"nodes":[{}]}}`:                         Rendering,
		`{"schema":9}`:                                               Rendering,
		"":                                                           Rendering,
		"w1 slots=8\nw2 slots=8":                                     Foreign,
		"{":                                                          Foreign,
		`{"schema":"x"}`:                                             Foreign,
		`{"name":1,"schema":1}`:                                      Foreign,
		"PASS  is my first line":                                     Foreign,
		"my notes\n4 nodes, idle":                                    Foreign,
		// What others write in the same formats is theirs.
		xml.Header + `<testsuites name="go test"`:            Foreign,
		"<!-- preflight notes -->\n":                         Foreign,
		"<!-- preflight report -->\n\nMy notes.\n":           Foreign,
		"<!-- preflight report -->\n## FAIL: mine":           Foreign,
		"::notice title=lint::all well\n":                    Foreign,
		"PREFLIGHT CHECKLIST - fuel | oil\n":                 Foreign,
		"PREFLIGHT OK - ready | time=1s\nmine\n":             Foreign,
		"PREFLIGHT OK - ready | time=1s\n\n":                 Foreign,
		"PREFLIGHT OK - ready | ti":                          Rendering, // cut short
		"PREFLIGHT OK - " + strings.Repeat("x", mostOfStart): Foreign,
		"# HELP node_load1 1m load average.\n":               Foreign,
		"# good hosts, by me\nw1 slots=8\n":                  Foreign,
	} {
		if got := Wrote(strings.NewReader(text)); got != want {
			t.Errorf("Wrote(%.60q) = %d, want %d", text, got, want)
		}
	}
}
