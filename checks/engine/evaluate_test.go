// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

func TestConclude(t *testing.T) {
	on := func(v checks.Verdict, nodes ...string) checks.Finding {
		return checks.Finding{Verdict: v, Nodes: nodes, Summary: string(v)}
	}
	for name, c := range map[string]struct {
		findings    []checks.Finding
		strict      bool
		interrupted bool
		want        checks.Verdict
		exit        int
	}{
		"nothing found":                       {nil, false, false, checks.Pass, 0},
		"a warning":                           {[]checks.Finding{on(checks.Warn, "w1")}, false, false, checks.Warn, 0},
		"a warning, strict":                   {[]checks.Finding{on(checks.Warn, "w1")}, true, false, checks.Fail, 1},
		"an unknown":                          {[]checks.Finding{on(checks.Unknown, "w1")}, false, false, checks.Unknown, 2},
		"an unknown, strict":                  {[]checks.Finding{on(checks.Unknown, "w1")}, true, false, checks.Unknown, 2},
		"a warning and an unknown":            {[]checks.Finding{on(checks.Warn, "w1"), on(checks.Unknown, "w2")}, false, false, checks.Unknown, 2},
		"a warning and an unknown, strict":    {[]checks.Finding{on(checks.Warn, "w1"), on(checks.Unknown, "w2")}, true, false, checks.Fail, 1},
		"a failure and an unknown":            {[]checks.Finding{on(checks.Unknown, "w1"), on(checks.Fail, "w2")}, false, false, checks.Fail, 1},
		"interrupted":                         {nil, false, true, checks.Unknown, 2},
		"interrupted after a failure":         {[]checks.Finding{on(checks.Fail, "w1")}, false, true, checks.Fail, 1},
		"interrupted after a warning, strict": {[]checks.Finding{on(checks.Warn, "w1")}, true, true, checks.Fail, 1},
		"everything skipped":                  {checks.Skipped("does not apply"), false, false, checks.Unknown, 2},
	} {
		fleet := fleettest.Healthy(2)
		report := Evaluate([]checks.Check{fleettest.Says("one", c.findings...)}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
		report.Interrupted = c.interrupted
		report.Conclude(c.strict)
		if report.Verdict != c.want || report.ExitCode != c.exit {
			t.Errorf("%s: %s, exit %d; want %s, exit %d", name, report.Verdict, report.ExitCode, c.want, c.exit)
		}
	}
}

func TestOutcome(t *testing.T) {
	blind := fleettest.Healthy(3)
	blind.Nodes[1].SHM, blind.Nodes[1].Missing = nil, map[facts.Section]string{facts.SectionSHM: "denied"}
	gone := fleettest.Healthy(3)
	gone.Nodes[2].Reached, gone.Nodes[2].Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused"}}
	lost := fleettest.Healthy(3)
	lost.Nodes[2].SHM, lost.Nodes[2].SSH = nil, &facts.SSH{Stage: "talk", Cause: "truncated"}
	for name, c := range map[string]struct {
		fleet fleettest.Fleet
		check checks.Check
		want  checks.Outcome
		count int // the number of findings
	}{
		"all pass":                 {fleettest.Healthy(3), fleettest.Says("x"), checks.Outcome{Verdict: checks.Pass}, 0},
		"skip with its reason":     {fleettest.Healthy(3), fleettest.Says("x", checks.Skipped("no such thing")...), checks.Outcome{Verdict: checks.Skip, Reason: "no such thing"}, 0},
		"a node lacks the section": {blind, fleettest.Says("x"), checks.Outcome{Verdict: checks.Unknown, Reason: "shm: denied"}, 1},
		"a skip needs every node":  {blind, fleettest.Says("x", checks.Skipped("no such thing")...), checks.Outcome{Verdict: checks.Unknown, Reason: "shm: denied"}, 1},
		"a failure outranks it":    {blind, fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad"}), checks.Outcome{Verdict: checks.Fail}, 2},
		"not reached: no finding":  {gone, fleettest.Says("x"), checks.Outcome{Verdict: checks.Unknown, Reason: "w3 not reached"}, 0},
		"lost later: no finding":   {lost, fleettest.Says("x"), checks.Outcome{Verdict: checks.Unknown, Reason: "w3 not reached"}, 0},
		"no node at all":           {fleettest.Healthy(0), fleettest.Says("x"), checks.Outcome{Verdict: checks.Unknown, Reason: "there is no node to check"}, 0},
		"a skip after a finding":   {fleettest.Healthy(3), fleettest.Says("x", append([]checks.Finding{{Nodes: []string{"w1"}, Summary: "bad"}}, checks.Skipped("eh")...)...), checks.Outcome{Verdict: checks.Fail}, 1},
		"the head was not seen":    {fleettest.Fleet{Fleet: facts.Fleet{Nodes: fleettest.Healthy(1).Nodes}}, checks.Check{ID: "x", OnHead: true}, checks.Outcome{Verdict: checks.Unknown, Reason: "the launching machine was not checked"}, 0},
		"the head lacks a section": {fleettest.Healthy(1), checks.Check{ID: "x", OnHead: true, Needs: []facts.Section{facts.SectionIB}}, checks.Outcome{Verdict: checks.Unknown, Reason: "launching machine: ib: not checked"}, 0},
		"a head check has all nodes": {gone, checks.Check{ID: "x", OnHead: true, Severity: checks.Warning, Run: func(v checks.View) []checks.Finding {
			return []checks.Finding{{Nodes: []string{v.Nodes[2].Name}, Summary: "seen"}}
		}}, checks.Outcome{Verdict: checks.Warn, Severity: checks.Warning}, 1},
	} {
		report := Evaluate([]checks.Check{c.check}, c.fleet.Fleet, c.fleet.Launch, checks.DefaultPolicy())
		c.want.Check, c.want.Severity = "x", c.check.Severity
		if diff := cmp.Diff(c.want, report.Checks[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(report.Findings) != c.count {
			t.Errorf("%s: %d findings, want %d: %+v", name, len(report.Findings), c.count, report.Findings)
		}
	}
}

// TestDeadNodeCountsOnce checks that only the ssh check reports a failed login. The other checks
// examine the reached nodes. They are unknown only if no finding that counts reports the failed
// login.
func TestDeadNodeCountsOnce(t *testing.T) {
	way := func(verdict checks.Verdict) checks.Check {
		c := checks.Check{ID: "way", Severity: checks.Error, Needs: []facts.Section{facts.SectionSSH}, Rung: 1}
		c.Stopped = func(node *facts.Node) (int, checks.Finding) {
			if node.SSH.Cause == "" {
				return 0, checks.Finding{}
			}
			return 1, checks.Finding{Verdict: verdict, Nodes: []string{node.Name}, Summary: "refuses"}
		}
		c.Run = checks.OnEach(func(_ checks.View, node *facts.Node) []checks.Finding {
			if rung, f := c.Stopped(node); rung > 0 {
				return []checks.Finding{f}
			}
			return nil
		})
		return c
	}
	skipping := fleettest.Says("x", checks.Skipped("no such thing")...)
	waived := checks.Policy{Today: "2026-11-22", Waivers: []checks.Waiver{{Check: "way", Until: "2026-12-31"}}}
	for name, c := range map[string]struct {
		dead   int
		way, x checks.Check
		policy checks.Policy
		want   string
		exit   int
	}{
		"it fails":               {1, way(""), fleettest.Says("x"), checks.Policy{}, "pass w1 not reached", 1},
		"nothing applies":        {1, way(""), skipping, checks.Policy{}, "skip no such thing", 1},
		"all of them":            {3, way(""), fleettest.Says("x"), checks.Policy{}, "unknown w[1-3] not reached", 1},
		"something else fails":   {1, way(""), fleettest.Says("x", checks.Finding{Nodes: []string{"w2"}}), checks.Policy{}, "fail ", 1},
		"nobody can tell":        {1, way(checks.Unknown), fleettest.Says("x"), checks.Policy{}, "unknown w1 not reached", 2},
		"it is a warning":        {1, way(""), fleettest.Says("x"), checks.Policy{Severities: map[string]checks.Severity{"way": checks.Warning}}, "unknown w1 not reached", 2},
		"it is waived":           {1, way(""), fleettest.Says("x"), waived, "unknown w1 not reached", 2},
		"it is switched off":     {1, way(""), fleettest.Says("x"), checks.Policy{Skip: []string{"way"}}, "unknown not reached: refuses", 2},
		"there is no such check": {1, fleettest.Says("other"), fleettest.Says("x"), checks.Policy{}, "unknown w1 not reached", 2},
	} {
		fleet := fleettest.Healthy(3)
		for i := range c.dead {
			fleet.Nodes[i].Reached, fleet.Nodes[i].Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused"}}
		}
		r := Evaluate([]checks.Check{c.way, c.x}, fleet.Fleet, fleet.Launch, c.policy)
		if got := string(r.Checks[1].Verdict) + " " + r.Checks[1].Reason; got != c.want || r.ExitCode != c.exit {
			t.Errorf("%s: %q, exit %d; want %q, exit %d", name, got, r.ExitCode, c.want, c.exit)
		}
	}
}

func TestSwitchedOff(t *testing.T) {
	for name, policy := range map[string]checks.Policy{"skipped": {Skip: []string{"a"}}, "not the only one": {Only: []string{"b"}}} {
		fleet := fleettest.Healthy(1)
		report := Evaluate([]checks.Check{fleettest.Says("a", checks.Finding{Nodes: []string{"w1"}}), fleettest.Says("b")}, fleet.Fleet, fleet.Launch, policy)
		want := []checks.Outcome{{Check: "a", Verdict: checks.Skip, Severity: checks.Error, Reason: "switched off"}, {Check: "b", Verdict: checks.Pass, Severity: checks.Error}}
		if diff := cmp.Diff(want, report.Checks); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMissingSectionIsSaidOnce checks that a section that did not answer takes one line, however
// many checks need the section.
func TestMissingSectionIsSaidOnce(t *testing.T) {
	fleet := fleettest.Healthy(3)
	fleet.Nodes[1].SHM, fleet.Nodes[1].Missing = nil, map[facts.Section]string{facts.SectionSHM: "no answer within 2s"}
	report := Evaluate([]checks.Check{fleettest.Says("first"), fleettest.Says("second"), fleettest.Says("third", checks.UnknownFor(&fleet.Nodes[2], "something else"))}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
	var got []string
	for _, f := range report.Findings {
		got = append(got, f.Check+" "+strings.Join(f.Nodes, ",")+" "+f.Summary)
	}
	if diff := cmp.Diff([]string{"first w2 shm: no answer within 2s", "third w3 something else"}, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	for _, outcome := range report.Checks {
		if outcome.Verdict != checks.Unknown || !strings.Contains(outcome.Reason, "no answer within 2s") {
			t.Errorf("%s: %s (%s)", outcome.Check, outcome.Verdict, outcome.Reason)
		}
	}
}

// TestFailuresAreNeverDropped checks that two checks may fail one node in the same words.
func TestFailuresAreNeverDropped(t *testing.T) {
	finding := checks.Finding{Nodes: []string{"w1"}, Summary: "bad"}
	fleet := fleettest.Healthy(2)
	if report := Evaluate([]checks.Check{fleettest.Says("a", finding), fleettest.Says("b", finding)}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()); len(report.Findings) != 2 {
		t.Errorf("%d findings, want 2: %+v", len(report.Findings), report.Findings)
	}
}

func TestFolding(t *testing.T) {
	fleet := fleettest.Healthy(5)
	fleet.Nodes[4].Name = "user@w5"
	finding := func(node, got string) checks.Finding {
		return checks.Finding{Nodes: []string{node}, Summary: "bad", Got: got, Remedy: []fix.Command{fix.On("date"), fix.Here("ping {host}"), fix.Here("scan {hosts}"), fix.Here("x {node} {nodes}")}}
	}
	check := fleettest.Says("ssh-host-key", finding("w3", "1"), finding("w1", "1"), finding("w3", "1"), finding("user@w5", "2"))
	got := Evaluate([]checks.Check{check}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()).Findings
	want := []checks.Finding{
		{
			Check: "ssh-host-key", Verdict: checks.Fail, Nodes: []string{"w1", "w3"}, Summary: "bad", Got: "1", WouldSee: "w1: Host key verification failed.",
			Fix: []string{"pdsh -R ssh -w 'w[1,3]' date", "ping w1", "scan w1 w3", "x w1 'w[1,3]'"}, Roles: []fix.Role{fix.Fix, fix.Fix, fix.Fix, fix.Fix},
		},
		{
			Check: "ssh-host-key", Verdict: checks.Fail, Nodes: []string{"user@w5"}, Summary: "bad", Got: "2", WouldSee: "user@w5: Host key verification failed.",
			Fix: []string{"ssh -n user@w5 date", "ping w5", "scan w5", "x user@w5 user@w5"}, Roles: []fix.Role{fix.Fix, fix.Fix, fix.Fix, fix.Fix},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fleet.Launch.SSHPort = 2222
	got = Evaluate([]checks.Check{check}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()).Findings
	commands := []string{got[0].Fix[0], got[1].Fix[0]}
	if diff := cmp.Diff([]string{"PDSH_SSH_ARGS_APPEND='-p 2222' pdsh -R ssh -w 'w[1,3]' date", "ssh -n -p 2222 user@w5 date"}, commands); diff != "" {
		t.Errorf("with --ssh_port (-want +got):\n%s", diff)
	}
}

// TestReportHasNoNullLists checks that the JSON of a report has no null where the schema has a
// list.
func TestReportHasNoNullLists(t *testing.T) {
	for name, fleet := range map[string]fleettest.Fleet{"healthy": fleettest.Healthy(2), "empty": fleettest.Healthy(0)} {
		check := fleettest.Says("x")
		check.OnHead = true
		check.Needs = nil
		check.Run = func(checks.View) []checks.Finding { return []checks.Finding{{Summary: "of nobody"}} }
		text, err := json.Marshal(Evaluate([]checks.Check{check}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy()))
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
	fleet := fleettest.Healthy(3)
	report := Evaluate([]checks.Check{
		fleettest.Says("a", checks.Finding{Verdict: checks.Warn, Nodes: []string{"w1"}, Summary: "warned"}),
		fleettest.Says("b", checks.Finding{Verdict: checks.Unknown, Nodes: []string{"w1"}, Summary: "untold"}),
		fleettest.Says("c", checks.Finding{Nodes: []string{"w1"}, Summary: "failed"}),
	}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
	var got []string
	for _, f := range report.Findings {
		got = append(got, f.Check)
	}
	if !slices.Equal(got, []string{"c", "b", "a"}) {
		t.Errorf("order %v", got)
	}
}
