// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// waivedRun returns the findings that count and the findings that are waived, each in the form
// "verdict check nodes", and the report.
func waivedRun(fleet fleettest.Fleet, policy checks.Policy, catalogue ...checks.Check) (counts, waived []string, r checks.Report) {
	r = Evaluate(append(catalogue, PolicyInForce), fleet.Fleet, fleet.Launch, policy)
	spelled := func(f checks.Finding) string {
		return string(f.Verdict) + " " + f.Check + " " + strings.Join(f.Nodes, ",")
	}
	for _, f := range r.Findings {
		counts = append(counts, spelled(f))
	}
	for _, w := range r.Waived {
		waived = append(waived, spelled(w.Finding)+" until "+w.Until)
	}
	return counts, waived, r
}

func TestWaivers(t *testing.T) {
	bad := func(nodes ...string) checks.Finding { return checks.Finding{Nodes: nodes, Summary: "bad"} }
	waives := func(check, until string, nodes ...string) checks.Waiver {
		return checks.Waiver{Check: check, Nodes: nodes, Reason: "known", Owner: "ops", Until: until, At: "p:1"}
	}
	lost := fleettest.Healthy(3)
	lost.Nodes[2].Reached, lost.Nodes[2].Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused"}}
	const later, past = "2099-12-31", "2026-11-20"
	for name, c := range map[string]struct {
		fleet          fleettest.Fleet
		check          checks.Check
		waivers        []checks.Waiver
		counts, waived []string
		verdict        checks.Verdict // the check's verdict
		exit           int
	}{
		"nothing waived":        {fleettest.Healthy(3), fleettest.Says("x", bad("w1")), nil, []string{"fail x w1"}, nil, checks.Fail, 1},
		"the one that fails":    {fleettest.Healthy(3), fleettest.Says("x", bad("w1")), []checks.Waiver{waives("x", later, "w1")}, nil, []string{"fail x w1 until " + later}, checks.Skip, 0},
		"one node of two":       {fleettest.Healthy(3), fleettest.Says("x", bad("w1", "w2")), []checks.Waiver{waives("x", later, "w2")}, []string{"fail x w1"}, []string{"fail x w2 until " + later}, checks.Fail, 1},
		"each by its own":       {fleettest.Healthy(3), fleettest.Says("x", bad("w1", "w2")), []checks.Waiver{waives("x", later, "w2"), waives("x", "2098-01-01", "w1")}, nil, []string{"fail x w2 until " + later, "fail x w1 until 2098-01-01"}, checks.Skip, 0},
		"wherever it is":        {fleettest.Healthy(3), fleettest.Says("x", bad("w1"), bad()), []checks.Waiver{waives("x", later)}, nil, []string{"fail x w1 until " + later}, checks.Skip, 0},
		"not the head's":        {fleettest.Healthy(3), fleettest.Says("x", bad()), []checks.Waiver{waives("x", later, "w1")}, []string{"fail x ", "warn policy "}, nil, checks.Fail, 1},
		"its last day":          {fleettest.Healthy(3), fleettest.Says("x", bad("w1")), []checks.Waiver{waives("x", "2026-11-21", "w1")}, nil, []string{"fail x w1 until 2026-11-21"}, checks.Skip, 0},
		"expired":               {fleettest.Healthy(3), fleettest.Says("x", bad("w1")), []checks.Waiver{waives("x", past, "w1")}, []string{"fail x w1", "fail policy "}, nil, checks.Fail, 1},
		"expired, and repaired": {fleettest.Healthy(3), fleettest.Says("x"), []checks.Waiver{waives("x", past, "w1")}, []string{"fail policy "}, nil, checks.Pass, 1},
		"repaired":              {fleettest.Healthy(3), fleettest.Says("x"), []checks.Waiver{waives("x", later, "w1")}, []string{"warn policy "}, nil, checks.Pass, 0},
		"another fleet":         {fleettest.Healthy(3), fleettest.Says("x"), []checks.Waiver{waives("x", later, "w9")}, nil, nil, checks.Pass, 0},
		"not to be told":        {lost, fleettest.Says("x"), []checks.Waiver{waives("x", later, "w1")}, nil, nil, checks.Unknown, 2},
		"no unknown is waived":  {fleettest.Healthy(3), fleettest.Says("x", checks.Finding{Verdict: checks.Unknown, Nodes: []string{"w1"}, Summary: "unseen"}), []checks.Waiver{waives("x", later, "w1")}, []string{"unknown x w1"}, nil, checks.Unknown, 2},
		"another fact": {fleettest.Healthy(3), fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size"}), []checks.Waiver{{Check: "x", Fact: "shm.mode", Until: later, Reason: "known", At: "p:1"}},
			[]string{"fail x w1", "warn policy "}, nil, checks.Fail, 1},
		"that fact": {fleettest.Healthy(3), fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size"}), []checks.Waiver{{Check: "x", Fact: "shm.size", Until: later, Reason: "known"}},
			nil, []string{"fail x w1 until " + later}, checks.Skip, 0},
		"facts by a star": {fleettest.Healthy(3), fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "python.packages.numpy"}), []checks.Waiver{{Check: "x", Fact: "python.packages.*", Until: later, Reason: "known"}},
			nil, []string{"fail x w1 until " + later}, checks.Skip, 0},
		"one of two facts": {fleettest.Healthy(3), fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}), []checks.Waiver{{Check: "x", Fact: "shm.size", Until: later, Reason: "known", At: "p:1"}},
			[]string{"fail x w1", "warn policy "}, nil, checks.Fail, 1},
		"two facts by two": {fleettest.Healthy(3), fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}),
			[]checks.Waiver{{Check: "x", Fact: "shm.mode", Until: later, Reason: "a", At: "p:1"}, {Check: "x", Fact: "shm.size", Until: "2098-01-01", Reason: "b", At: "p:2"}},
			nil, []string{"fail x w1 until 2098-01-01"}, checks.Skip, 0},
		"two facts by two, one of which has ended": {fleettest.Healthy(3), fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}),
			[]checks.Waiver{{Check: "x", Fact: "shm.mode", Until: later, Reason: "a", At: "p:1"}, {Check: "x", Fact: "shm.size", Until: past, Reason: "b", At: "p:2"}},
			[]string{"fail x w1", "fail policy ", "warn policy "}, nil, checks.Fail, 1},
		"both facts": {fleettest.Healthy(3), fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}), []checks.Waiver{{Check: "x", Fact: "shm.*", Until: later, Reason: "known"}},
			nil, []string{"fail x w1 until " + later}, checks.Skip, 0},
		"a fact in short": {fleettest.Healthy(3), fleettest.Says("x", checks.Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "nvml.driver"}), []checks.Waiver{{Check: "x", Fact: "gpu.driver", Until: later, Reason: "known"}},
			nil, []string{"fail x w1 until " + later}, checks.Skip, 0},
	} {
		counts, waived, r := waivedRun(c.fleet, checks.Policy{Today: "2026-11-21", Waivers: c.waivers}, c.check, fleettest.Says("another"))
		if diff := cmp.Diff(c.counts, counts); diff != "" {
			t.Errorf("%s: counted (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.waived, waived); diff != "" {
			t.Errorf("%s: waived (-want +got):\n%s", name, diff)
		}
		if r.Checks[0].Verdict != c.verdict || r.ExitCode != c.exit {
			t.Errorf("%s: %s (%s), exit %d; want %s, exit %d", name, r.Checks[0].Verdict, r.Checks[0].Reason, r.ExitCode, c.verdict, c.exit)
		}
	}
}

// TestNamesUnlisted checks that names in the policy that the hostfile lacks are listed, without a
// finding. Nodes that a filter leaves out are in the hostfile, so they are not listed.
func TestNamesUnlisted(t *testing.T) {
	fleet := fleettest.Healthy(2)
	fleet.Launch.HostsFile, fleet.Launch.Excluded = "hostfile", []string{"ops@w9"}
	policy := checks.Policy{
		File: "p", Today: "2026-11-21",
		Groups:  []checks.Group{{Name: "a", Nodes: []string{"x1", "x2"}, At: "p:1"}, {Name: "b", Nodes: []string{"w1", "x3"}, At: "p:2"}},
		Expect:  []checks.Expectation{{Fact: "shm.size", Is: []string{">=1"}, Nodes: []string{"x1", "x2"}, At: "p:3"}, {Fact: "shm.size", Is: []string{">=1"}, Nodes: []string{"w9"}, At: "p:4"}},
		Waivers: []checks.Waiver{{Check: "shm-size", Nodes: []string{"W1"}, Until: "2099-01-01", At: "p:5"}, {Check: "shm-size", Until: "2099-01-01", At: "p:6"}},
	}
	outcome := func(policy checks.Policy) string {
		first := Evaluate([]checks.Check{PolicyInForce}, fleet.Fleet, fleet.Launch, policy).Checks[0]
		return string(first.Verdict) + " " + first.Reason
	}
	if got, want := outcome(policy), "pass not in hostfile: W1,x[1-3] (p:1, p:2, p:3, p:5)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	policy.Waivers = nil
	if got, want := outcome(policy), "pass not in hostfile: x[1-3] (p:1, p:2, p:3)"; got != want {
		t.Errorf("without a waiver: %q, want %q", got, want)
	}
	fleet.Launch.HostsFile = ""
	if got, want := outcome(policy), "skip the policy has no waivers"; got != want {
		t.Errorf("without a hostfile: %q, want %q", got, want)
	}
}

// TestAWaiverOfOnePackage checks that a waiver does not cover another package that changed at the
// same time.
func TestAWaiverOfOnePackage(t *testing.T) {
	was, now := fleettest.Healthy(1), fleettest.Healthy(1)
	now.Nodes[0].Python.Packages["torch"] = "2.9.0"
	now.Nodes[0].Python.Packages["protobuf"] = "5.29.1"
	for fact, want := range map[string]checks.Verdict{"python.packages.torch": checks.Fail, "python.packages.protobuf": checks.Fail, "python.packages.*": checks.Skip} {
		policy := checks.Policy{Today: "2026-11-21", Baseline: &checks.Baseline{Nodes: was.Nodes}, Waivers: []checks.Waiver{{Check: "drift", Fact: fact, Until: "2026-12-31"}}}
		if got := Evaluate([]checks.Check{agreement.Drift}, now.Fleet, now.Launch, policy).Checks[0]; got.Verdict != want {
			t.Errorf("waived %s: drift is %s (%s), want %s", fact, got.Verdict, got.Reason, want)
		}
	}
}

// TestWaiverInPart checks that a waiver for part of a finding does not count as unused, and that
// the report names the rest.
func TestWaiverInPart(t *testing.T) {
	found := checks.Finding{Nodes: []string{"w1", "w2"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}
	policy := checks.Policy{Today: "2026-11-21", Waivers: []checks.Waiver{{Check: "x", Fact: "shm.size", Until: "2099-12-31", Reason: "known", At: "p:1"}}}
	_, _, r := waivedRun(fleettest.Healthy(3), policy, fleettest.Says("x", found))
	got := r.Findings[len(r.Findings)-1]
	want := checks.Finding{
		Check: PolicyInForce.ID, Verdict: checks.Warn, Nodes: []string{}, At: "p:1",
		Summary:  "the waiver for x for shm.size covers only part of the x finding on w[1-2]",
		Got:      "known, stated at p:1",
		Want:     "a waiver that also covers shm.mode",
		Notes:    []string{"if that was agreed too, add to the waiver at p:1: shm.mode"},
		Decide:   true,
		WouldSee: PolicyInForce.Text().WouldSee,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWaivedTogether checks that a finding that two waivers cover has the reasons of both waivers,
// each once.
func TestWaivedTogether(t *testing.T) {
	found := checks.Finding{Nodes: []string{"w1", "w2"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}
	policy := checks.Policy{Today: "2026-11-21", Waivers: []checks.Waiver{
		{Check: "x", Fact: "shm.size", Until: "2099-12-31", Reason: "known", Owner: "ops", At: "p:1"},
		{Check: "x", Fact: "shm.mode", Until: "2027-01-01", Reason: "agreed", Owner: "ops", At: "p:5"},
	}}
	_, _, r := waivedRun(fleettest.Healthy(3), policy, fleettest.Says("x", found))
	if len(r.Waived) != 1 {
		t.Fatalf("%d are waived, not one", len(r.Waived))
	}
	got := r.Waived[0]
	got.Finding = checks.Finding{Nodes: got.Nodes}
	want := checks.Waived{Finding: checks.Finding{Nodes: []string{"w1", "w2"}}, Reason: "known; agreed", Owner: "ops", Until: "2027-01-01", At: "p:1, p:5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSeverities checks that setting a check's severity to the severity that it already has changes
// nothing. It also checks that milder findings of an error stay milder.
func TestSeverities(t *testing.T) {
	plain := checks.Finding{Nodes: []string{"w1"}, Summary: "bad"}
	milder, graver := checks.Finding{Verdict: checks.Warn, Nodes: []string{"w2"}, Summary: "less"}, checks.Finding{Verdict: checks.Fail, Nodes: []string{"w2"}, Summary: "more"}
	for _, c := range []struct {
		own, stated checks.Severity
		other       checks.Finding
		want        []string
	}{
		{checks.Error, "", milder, []string{"fail x w1", "warn x w2"}},
		{checks.Error, checks.Error, milder, []string{"fail x w1", "warn x w2"}},
		{checks.Error, checks.Warning, milder, []string{"warn x w1", "warn x w2"}},
		{checks.Warning, "", graver, []string{"fail x w2", "warn x w1"}},
		{checks.Warning, checks.Warning, graver, []string{"fail x w2", "warn x w1"}},
		{checks.Warning, checks.Error, graver, []string{"fail x w1", "fail x w2"}},
		{checks.Warning, checks.Error, milder, []string{"fail x w1", "fail x w2"}},
	} {
		policy, reported := checks.Policy{Today: "2026-11-21"}, c.own
		if c.stated != "" {
			policy.Severities, reported = map[string]checks.Severity{"x": c.stated}, c.stated
		}
		check := fleettest.Says("x", plain, c.other)
		check.Severity = c.own
		counts, _, r := waivedRun(fleettest.Healthy(2), policy, check)
		if diff := cmp.Diff(c.want, counts); diff != "" {
			t.Errorf("%s stated as %q (-want +got):\n%s", c.own, c.stated, diff)
		}
		if r.Checks[0].Severity != reported {
			t.Errorf("%s stated as %q is reported as %q", c.own, c.stated, r.Checks[0].Severity)
		}
	}
}
