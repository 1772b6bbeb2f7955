// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"preflight/explain"
	"preflight/report"
	"preflight/testhosts/reporttest"
)

func TestWroteKnowsOurReports(t *testing.T) {
	for _, f := range All {
		for which, r := range reporttest.Cases() {
			if which == "hostile" && f.Hosts {
				continue // its names are refused
			}
			for _, style := range []report.Style{{}, {Quiet: true}} {
				if got := Wrote(strings.NewReader(rendered(t, f, r, style))); got != f.Worth() {
					t.Errorf("%s of %s is %d, want %d", f.Name, which, got, f.Worth())
				}
			}
		}
	}
	var snapshot bytes.Buffer
	if err := report.Normalized(&snapshot, reporttest.Failing()); err != nil || Wrote(&snapshot) != NormalizedSnapshot {
		t.Errorf("a normalized snapshot is not known for one (%v)", err)
	}
	var out bytes.Buffer
	if err := report.JSON(&out, reporttest.Failing()); err != nil {
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
		"<!doctype html>\n<html><head><title>mine</title>": Foreign,
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

// TestExplanationIsKnownAgain: it may replace an earlier one and nothing else.
func TestExplanationIsKnownAgain(t *testing.T) {
	for code := range 3 {
		var text, json bytes.Buffer
		wreck := explain.Report{ExitCode: code, Files: 1, Lines: 2}
		if err := report.Explanation(&text, wreck, report.Style{}); err != nil {
			t.Fatal(err)
		}
		if err := report.JSON(&json, report.Explained{Report: wreck}); err != nil {
			t.Fatal(err)
		}
		if Wrote(&text) != Rendering || Wrote(&json) != Rendering {
			t.Errorf("%d: not known as a report of ours", code)
		}
	}
}
