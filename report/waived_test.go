// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/testhosts/reporttest"
)

// TestWaivedIsToldInOneLine checks that hostile text is escaped and does not end the line.
func TestWaivedIsToldInOneLine(t *testing.T) {
	r := reporttest.Passing()
	r.Checks = append(r.Checks, checks.Outcome{Check: "shm-size", Verdict: checks.Skip, Reason: checks.AllWaived})
	r.Waived = []checks.Waived{
		{Finding: checks.Finding{Check: "shm-size", Nodes: []string{"w2", "w3"}, Summary: "too\nsmall\x1b[31m"}, Reason: "docker\tdefault", Owner: "ops", Until: "2026-12-31"},
		{Finding: checks.Finding{Check: "launcher-ready", Summary: "no pdsh"}, Reason: "later", Until: "2026-12-31"},
	}
	var out bytes.Buffer
	if err := Text(&out, r, Style{Width: 40}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "waived  ") || strings.Contains(line, "shm-size") {
			got = append(got, line)
		}
	}
	want := []string{
		"waived  shm-size w[2-3]: too small\\x1b[31m (until 2026-12-31, by ops: docker default)\n",
		"waived  launcher-ready the launching machine: no pdsh (until 2026-12-31: later)\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPolicyDraftIsRead checks that a draft is valid YAML with the drafted values, whatever the
// nodes' text contains. Facts on which the nodes differ must be comments.
func TestPolicyDraftIsRead(t *testing.T) {
	const evil = "1\"\n- fact: shm.size\n# \x1b\u202e\x7f: {["
	group := func(value string, nodes ...string) checks.FactGroup {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return checks.FactGroup{Value: text, Nodes: nodes}
	}
	var out bytes.Buffer
	err := PolicyDraft(&out, []string{"w1", "w2", "w\n- x"}, nil, []agreement.Draft{
		{Fact: "nvml.driver", Is: "550.54.15", Groups: []checks.FactGroup{group("550.54.15", "w1", "w2")}},
		{Fact: "python.packages.a: #b", Is: evil, Groups: []checks.FactGroup{group(evil, "w1", "w2")}},
		{Fact: "host.os", Is: evil, Groups: []checks.FactGroup{group(evil, "w1"), {Nodes: []string{"w2\nexpect: 1"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Expect []struct{ Fact, Is string }
	}
	if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	want := []struct{ Fact, Is string }{{"nvml.driver", "550.54.15"}, {"python.packages.a: #b", evil}}
	if diff := cmp.Diff(want, got.Expect); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(out.String(), "  # the nodes differ: ") || !strings.Contains(out.String(), " on w1, absent on w2") {
		t.Errorf("it does not say how nodes differ:\n%s", out.String())
	}
	if control := strings.IndexFunc(out.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == '\u202e' }); control >= 0 {
		t.Errorf("a control character is left at %d", control)
	}
	out.Reset()
	if err := PolicyDraft(&out, nil, nil, nil); err != nil || yaml.Unmarshal(out.Bytes(), &got) != nil {
		t.Errorf("without expectations it is no YAML:\n%s", out.String())
	}
}
