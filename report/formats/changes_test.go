// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/report"
	"preflight/report/ci"
	"preflight/testhosts/reporttest"
)

func TestChangesFormats(t *testing.T) {
	hostile := "`|<script>\n@all"
	value := func(text string) json.RawMessage {
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	changes := []checks.Change{
		{Node: "w1", Fact: "host.kernel", Before: value("6.1"), After: value(hostile)},
		{Node: "w2", Fact: "host.kernel", Before: value("6.1"), After: value(hostile)},
		{Node: "w3", After: value("new node")},
	}
	var out bytes.Buffer
	if err := ci.ChangesMarkdown(&out, report.Changed{Changes: changes}); err != nil {
		t.Fatal(err)
	}
	table := out.String()[strings.Index(out.String(), "| nodes"):]
	if lines := strings.Split(strings.TrimSpace(table), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[2], "| w[1-2] |") {
		t.Errorf("not one row for two nodes and one for the other:\n%s", table)
	}
	if strings.ContainsAny(strings.ReplaceAll(strings.ReplaceAll(table, "<code>", ""), "</code>", ""), "`<@") {
		t.Errorf("markup of a node's is left:\n%s", table)
	}
	out.Reset()
	if err := report.JSON(&out, report.Changed{Schema: checks.Schema, Changes: changes}); err != nil {
		t.Fatal(err)
	}
	var back report.Changed
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Schema != 1 {
		t.Fatalf("schema %d, %v", back.Schema, err)
	}
	if diff := cmp.Diff(len(changes), len(back.Changes)); diff != "" || back.Changes[0].Node != "w1" {
		t.Errorf("%s in %s", diff, out.String())
	}
	out.Reset()
	if err := ci.ChangesMarkdown(&out, report.Changed{}); err != nil || !strings.Contains(out.String(), "Nothing changed") {
		t.Errorf("%v, %q", err, out.String())
	}
	unseen := report.Changed{NotCompared: []agreement.NotCompared{
		{Node: "w1", Section: facts.SectionGPU, Reason: hostile},
		{Node: "w1", Section: facts.SectionNVML, Reason: hostile},
		{Node: "w2", Section: facts.SectionGPU, Reason: hostile},
		{Node: "w2", Section: facts.SectionNVML, Reason: hostile},
		{Node: "w3", Section: facts.SectionNVML, Reason: "timed out", Earlier: true},
		{Node: "w4", Reason: "not reached"},
	}}
	out.Reset()
	if err := report.ChangesText(&out, unseen, report.Style{}); err != nil {
		t.Fatal(err)
	}
	want := `nothing changed in the facts that could be compared

not compared: gpu, nvml on w[1-2]: not seen after: ` + text.Escape(hostile) + `

not compared: nvml on w3: not seen before: timed out

not compared: anything on w4: not reached
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	if err := ci.ChangesMarkdown(&out, unseen); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "<script>") || strings.Contains(text, "@all") || !strings.Contains(text, "| w3 | nvml | not seen before: timed out |") {
		t.Errorf("what was not compared:\n%s", text)
	}
}

// TestDriftIsOneTableEverywhere checks that formats for people show the changes once, with a link
// to the findings that cause them.
func TestDriftIsOneTableEverywhere(t *testing.T) {
	changed := func(verdict checks.Verdict, node, fact, cause string) checks.Finding {
		return checks.Finding{
			Check: "drift", Verdict: verdict, Nodes: []string{node}, SharesCause: cause, Summary: "told by its own", Fix: []string{"true # " + fact, "accept it"},
			Changes: []checks.Change{{Node: node, Fact: fact, Before: json.RawMessage(`"earlier"`), After: json.RawMessage(`"a|b"`)}},
		}
	}
	r := reporttest.Failing()
	r.Checks = append(r.Checks, checks.Outcome{Check: "drift", Verdict: checks.Fail})
	r.Findings = append(r.Findings, changed(checks.Fail, "w1", "shm.mode", ""), changed(checks.Warn, "w2", "host.kernel", ""), changed(checks.Fail, "w3", "nvml.driver", "gpu-driver-same"))
	for name, row := range map[string][]string{
		"text":     {"\nWARN  w2     host.kernel  earlier  a|b\n", "FAIL  drift  3 changes since the baseline\n"},
		"markdown": {"\n| WARN | w2 | <code>host.kernel</code> | earlier | a&#124;b |  |\n", "\n| FAIL | <code>drift</code> | w[1-3] | 3 changes since the baseline |"},
		"html":     {"<tr><td>WARN</td><td>w2</td><td>host.kernel</td><td>earlier</td><td>a|b</td><td></td></tr>", "<p>3 changes since the baseline</p>"},
	} {
		f, _ := Of(name)
		text := rendered(t, f, r, report.Style{})
		for _, part := range append(row, "see", "gpu-driver-same") {
			if strings.Count(text, part) == 0 {
				t.Errorf("%s lacks %q:\n%s", name, part, text)
			}
		}
		if once := strings.Count(text, "accept it"); once != 1 || strings.Contains(text, "told by its own") || strings.Contains(text, "true # nvml.driver") {
			t.Errorf("%s has %d commands to accept it, or what the table says:\n%s", name, once, text)
		}
	}
}
