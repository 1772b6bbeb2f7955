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
	"preflight/report"
	"preflight/report/ci"
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
	want := `nothing changed of what could be compared

not compared: gpu, nvml on w[1-2]: not seen after: ` + report.Escape(hostile) + `

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
	if Wrote(bytes.NewReader(out.Bytes())) != Rendering {
		t.Error("it is not known for a summary of ours, and would not be overwritten")
	}
}
