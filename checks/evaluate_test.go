package checks

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks/fix"
	"preflight/facts"
)

func TestConclude(t *testing.T) {
	on := func(v Verdict, nodes ...string) Finding { return Finding{Verdict: v, Nodes: nodes, Summary: string(v)} }
	for name, c := range map[string]struct {
		findings    []Finding
		strict      bool
		interrupted bool
		want        Verdict
		exit        int
	}{
		"nothing found":                       {nil, false, false, Pass, 0},
		"a warning":                           {[]Finding{on(Warn, "w1")}, false, false, Warn, 0},
		"a warning, strict":                   {[]Finding{on(Warn, "w1")}, true, false, Fail, 1},
		"an unknown":                          {[]Finding{on(Unknown, "w1")}, false, false, Unknown, 2},
		"an unknown, strict":                  {[]Finding{on(Unknown, "w1")}, true, false, Unknown, 2},
		"a warning and an unknown":            {[]Finding{on(Warn, "w1"), on(Unknown, "w2")}, false, false, Unknown, 2},
		"a warning and an unknown, strict":    {[]Finding{on(Warn, "w1"), on(Unknown, "w2")}, true, false, Fail, 1},
		"a failure and an unknown":            {[]Finding{on(Unknown, "w1"), on(Fail, "w2")}, false, false, Fail, 1},
		"interrupted":                         {nil, false, true, Unknown, 2},
		"interrupted after a failure":         {[]Finding{on(Fail, "w1")}, false, true, Fail, 1},
		"interrupted after a warning, strict": {[]Finding{on(Warn, "w1")}, true, true, Fail, 1},
		"everything skipped":                  {skip("does not apply"), false, false, Unknown, 2},
	} {
		fleet := healthyFleet(2)
		report := Evaluate([]Check{says("one", c.findings...)}, fleet.Fleet, fleet.Launch, DefaultPolicy())
		report.Interrupted = c.interrupted
		report.Conclude(c.strict)
		if report.Verdict != c.want || report.ExitCode != c.exit {
			t.Errorf("%s: %s, exit %d; want %s, exit %d", name, report.Verdict, report.ExitCode, c.want, c.exit)
		}
	}
}

func TestOutcome(t *testing.T) {
	blind := healthyFleet(3)
	blind.Nodes[1].SHM, blind.Nodes[1].Missing = nil, map[facts.Section]string{facts.SectionSHM: "denied"}
	gone := healthyFleet(3)
	gone.Nodes[2].Reached, gone.Nodes[2].Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused"}}
	lost := healthyFleet(3)
	lost.Nodes[2].SHM, lost.Nodes[2].SSH = nil, &facts.SSH{Stage: "talk", Cause: "truncated"}
	for name, c := range map[string]struct {
		fleet launchable
		check Check
		want  Outcome
		count int // findings
	}{
		"all pass":                 {healthyFleet(3), says("x"), Outcome{Verdict: Pass}, 0},
		"skip with its reason":     {healthyFleet(3), says("x", skip("no such thing")...), Outcome{Verdict: Skip, Reason: "no such thing"}, 0},
		"a node lacks the section": {blind, says("x"), Outcome{Verdict: Unknown, Reason: "shm: denied"}, 1},
		"a skip needs every node":  {blind, says("x", skip("no such thing")...), Outcome{Verdict: Unknown, Reason: "shm: denied"}, 1},
		"a failure outranks it":    {blind, says("x", Finding{Nodes: []string{"w1"}, Summary: "bad"}), Outcome{Verdict: Fail}, 2},
		"not reached: no finding":  {gone, says("x"), Outcome{Verdict: Unknown, Reason: "w3 not reached"}, 0},
		"lost later: no finding":   {lost, says("x"), Outcome{Verdict: Unknown, Reason: "w3 not reached"}, 0},
		"no node at all":           {healthyFleet(0), says("x"), Outcome{Verdict: Unknown, Reason: "there is no node to look at"}, 0},
		"a skip after a finding":   {healthyFleet(3), says("x", append([]Finding{{Nodes: []string{"w1"}, Summary: "bad"}}, skip("eh")...)...), Outcome{Verdict: Fail}, 1},
		"the head was not seen":    {launchable{Fleet: facts.Fleet{Nodes: healthyFleet(1).Nodes}}, Check{ID: "x", OnHead: true}, Outcome{Verdict: Unknown, Reason: "the launching machine was not looked at"}, 0},
		"the head lacks a section": {healthyFleet(1), Check{ID: "x", OnHead: true, Needs: []facts.Section{facts.SectionIB}}, Outcome{Verdict: Unknown, Reason: "launching machine: ib: not looked at"}, 0},
		"a head check has all nodes": {gone, Check{ID: "x", OnHead: true, Severity: Warning, Run: func(v View) []Finding {
			return []Finding{{Nodes: []string{v.Nodes[2].Name}, Summary: "seen"}}
		}}, Outcome{Verdict: Warn, Severity: Warning}, 1},
	} {
		report := Evaluate([]Check{c.check}, c.fleet.Fleet, c.fleet.Launch, DefaultPolicy())
		c.want.Check, c.want.Severity = "x", c.check.Severity
		if diff := cmp.Diff(c.want, report.Checks[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(report.Findings) != c.count {
			t.Errorf("%s: %d findings, want %d: %+v", name, len(report.Findings), c.count, report.Findings)
		}
	}
}

func TestSwitchedOff(t *testing.T) {
	for name, policy := range map[string]Policy{"skipped": {Skip: []string{"a"}}, "not the only one": {Only: []string{"b"}}} {
		fleet := healthyFleet(1)
		report := Evaluate([]Check{says("a", Finding{Nodes: []string{"w1"}}), says("b")}, fleet.Fleet, fleet.Launch, policy)
		want := []Outcome{{Check: "a", Verdict: Skip, Severity: Error, Reason: "switched off"}, {Check: "b", Verdict: Pass, Severity: Error}}
		if diff := cmp.Diff(want, report.Checks); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A section that did not answer is one line, however many checks need it.
func TestMissingSectionIsSaidOnce(t *testing.T) {
	fleet := healthyFleet(3)
	fleet.Nodes[1].SHM, fleet.Nodes[1].Missing = nil, map[facts.Section]string{facts.SectionSHM: "no answer within 2s"}
	report := Evaluate([]Check{says("first"), says("second"), says("third", unknown(&fleet.Nodes[2], "something else"))}, fleet.Fleet, fleet.Launch, DefaultPolicy())
	var got []string
	for _, f := range report.Findings {
		got = append(got, f.Check+" "+strings.Join(f.Nodes, ",")+" "+f.Summary)
	}
	if diff := cmp.Diff([]string{"first w2 shm: no answer within 2s", "third w3 something else"}, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	for _, outcome := range report.Checks {
		if outcome.Verdict != Unknown || !strings.Contains(outcome.Reason, "no answer within 2s") {
			t.Errorf("%s: %s (%s)", outcome.Check, outcome.Verdict, outcome.Reason)
		}
	}
}

// Two checks may well fail one node in the same words.
func TestFailuresAreNeverDropped(t *testing.T) {
	finding := Finding{Nodes: []string{"w1"}, Summary: "bad"}
	fleet := healthyFleet(2)
	if report := Evaluate([]Check{says("a", finding), says("b", finding)}, fleet.Fleet, fleet.Launch, DefaultPolicy()); len(report.Findings) != 2 {
		t.Errorf("%d findings, want 2: %+v", len(report.Findings), report.Findings)
	}
}

func TestFolding(t *testing.T) {
	fleet := healthyFleet(5)
	fleet.Nodes[4].Name = "user@w5"
	finding := func(node, got string) Finding {
		return Finding{Nodes: []string{node}, Summary: "bad", Got: got, Remedy: []fix.Command{fix.On("date"), fix.Here("ping {host}"), fix.Here("scan {hosts}"), fix.Here("x {node} {nodes}")}}
	}
	check := says("x", finding("w3", "1"), finding("w1", "1"), finding("w3", "1"), finding("user@w5", "2"))
	got := Evaluate([]Check{check}, fleet.Fleet, fleet.Launch, DefaultPolicy()).Findings
	want := []Finding{
		{
			Check: "x", Verdict: Fail, Nodes: []string{"w1", "w3"}, Summary: "bad", Got: "1", WouldSee: "boom on w1",
			Fix: []string{"pdsh -R ssh -w 'w[1,3]' date", "ping w1", "scan w1 w3", "x w1 'w[1,3]'"},
		},
		{
			Check: "x", Verdict: Fail, Nodes: []string{"user@w5"}, Summary: "bad", Got: "2", WouldSee: "boom on user@w5",
			Fix: []string{"ssh user@w5 date", "ping w5", "scan w5", "x user@w5 user@w5"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fleet.Launch.SSHPort = 2222
	got = Evaluate([]Check{check}, fleet.Fleet, fleet.Launch, DefaultPolicy()).Findings
	commands := []string{got[0].Fix[0], got[1].Fix[0]}
	if diff := cmp.Diff([]string{"PDSH_SSH_ARGS_APPEND='-p 2222' pdsh -R ssh -w 'w[1,3]' date", "ssh -p 2222 user@w5 date"}, commands); diff != "" {
		t.Errorf("with --ssh_port (-want +got):\n%s", diff)
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"w3": "w3", "user@w3.a": "user@w3.a", "": "''", "w[1,3]": "'w[1,3]'", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'",
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("ShellWord(%q) = %s, want %s", word, got, want)
		}
	}
}

// Readers of the JSON must never meet null where the schema has a list.
func TestReportHasNoNullLists(t *testing.T) {
	for name, fleet := range map[string]launchable{"healthy": healthyFleet(2), "empty": healthyFleet(0)} {
		check := says("x")
		check.OnHead = true
		check.Needs = nil
		check.Run = func(View) []Finding { return []Finding{{Summary: "of nobody"}} }
		text, err := json.Marshal(Evaluate([]Check{check}, fleet.Fleet, fleet.Launch, DefaultPolicy()))
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"checks", "findings", "diff"} {
			if tree[key] == nil {
				t.Errorf("%s: %s is null", name, key)
			}
		}
		for _, f := range tree["findings"].([]any) {
			if f.(map[string]any)["nodes"] == nil {
				t.Errorf("%s: a finding's nodes are null", name)
			}
		}
	}
}

func TestMostImportantFirst(t *testing.T) {
	fleet := healthyFleet(3)
	report := Evaluate([]Check{
		says("a", Finding{Verdict: Warn, Nodes: []string{"w1"}, Summary: "warned"}),
		says("b", Finding{Verdict: Unknown, Nodes: []string{"w1"}, Summary: "untold"}),
		says("c", Finding{Nodes: []string{"w1"}, Summary: "failed"}),
	}, fleet.Fleet, fleet.Launch, DefaultPolicy())
	var got []string
	for _, f := range report.Findings {
		got = append(got, f.Check)
	}
	if !slices.Equal(got, []string{"c", "b", "a"}) {
		t.Errorf("order %v", got)
	}
}
