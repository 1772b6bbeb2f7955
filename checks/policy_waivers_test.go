package checks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// waivedRun is what counts and what is waived, "verdict check nodes", and the exit code.
func waivedRun(fleet launchable, policy Policy, catalogue ...Check) (counts, waived []string, r Report) {
	r = Evaluate(append(catalogue, policyInForce), fleet.Fleet, fleet.Launch, policy)
	told := func(f Finding) string { return string(f.Verdict) + " " + f.Check + " " + strings.Join(f.Nodes, ",") }
	for _, f := range r.Findings {
		counts = append(counts, told(f))
	}
	for _, w := range r.Waived {
		waived = append(waived, told(w.Finding)+" until "+w.Until)
	}
	return counts, waived, r
}

func TestWaivers(t *testing.T) {
	bad := func(nodes ...string) Finding { return Finding{Nodes: nodes, Summary: "bad"} }
	waives := func(check, until string, nodes ...string) Waiver {
		return Waiver{Check: check, Nodes: nodes, Reason: "known", Owner: "ops", Until: until, At: "p:1"}
	}
	lost := healthyFleet(3)
	lost.Nodes[2].Reached, lost.Nodes[2].Facts = false, facts.Facts{SSH: &facts.SSH{Stage: "connect", Cause: "refused"}}
	const later, past = "2099-12-31", "2026-11-20"
	for name, c := range map[string]struct {
		fleet          launchable
		check          Check
		waivers        []Waiver
		counts, waived []string
		verdict        Verdict // of the check
		exit           int
	}{
		"nothing waived":        {healthyFleet(3), says("x", bad("w1")), nil, []string{"fail x w1"}, nil, Fail, 1},
		"the one that fails":    {healthyFleet(3), says("x", bad("w1")), []Waiver{waives("x", later, "w1")}, nil, []string{"fail x w1 until " + later}, Skip, 0},
		"one node of two":       {healthyFleet(3), says("x", bad("w1", "w2")), []Waiver{waives("x", later, "w2")}, []string{"fail x w1"}, []string{"fail x w2 until " + later}, Fail, 1},
		"each by its own":       {healthyFleet(3), says("x", bad("w1", "w2")), []Waiver{waives("x", later, "w2"), waives("x", "2098-01-01", "w1")}, nil, []string{"fail x w2 until " + later, "fail x w1 until 2098-01-01"}, Skip, 0},
		"wherever it is":        {healthyFleet(3), says("x", bad("w1"), bad()), []Waiver{waives("x", later)}, nil, []string{"fail x w1 until " + later}, Skip, 0},
		"not the head's":        {healthyFleet(3), says("x", bad()), []Waiver{waives("x", later, "w1")}, []string{"fail x ", "warn policy "}, nil, Fail, 1},
		"its last day":          {healthyFleet(3), says("x", bad("w1")), []Waiver{waives("x", "2026-11-21", "w1")}, nil, []string{"fail x w1 until 2026-11-21"}, Skip, 0},
		"expired":               {healthyFleet(3), says("x", bad("w1")), []Waiver{waives("x", past, "w1")}, []string{"fail x w1", "fail policy "}, nil, Fail, 1},
		"expired, and repaired": {healthyFleet(3), says("x"), []Waiver{waives("x", past, "w1")}, []string{"fail policy "}, nil, Pass, 1},
		"repaired":              {healthyFleet(3), says("x"), []Waiver{waives("x", later, "w1")}, []string{"warn policy "}, nil, Pass, 0},
		"another fleet":         {healthyFleet(3), says("x"), []Waiver{waives("x", later, "w9")}, nil, nil, Pass, 0},
		"not to be told":        {lost, says("x"), []Waiver{waives("x", later, "w1")}, nil, nil, Unknown, 2},
		"no unknown is waived":  {healthyFleet(3), says("x", Finding{Verdict: Unknown, Nodes: []string{"w1"}, Summary: "unseen"}), []Waiver{waives("x", later, "w1")}, []string{"unknown x w1"}, nil, Unknown, 2},
		"another fact": {healthyFleet(3), says("x", Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size"}), []Waiver{{Check: "x", Fact: "shm.mode", Until: later, Reason: "known", At: "p:1"}},
			[]string{"fail x w1", "warn policy "}, nil, Fail, 1},
		"that fact": {healthyFleet(3), says("x", Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size"}), []Waiver{{Check: "x", Fact: "shm.size", Until: later, Reason: "known"}},
			nil, []string{"fail x w1 until " + later}, Skip, 0},
		"facts by a star": {healthyFleet(3), says("x", Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "python.packages.numpy"}), []Waiver{{Check: "x", Fact: "python.packages.*", Until: later, Reason: "known"}},
			nil, []string{"fail x w1 until " + later}, Skip, 0},
		"one of two facts": {healthyFleet(3), says("x", Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}), []Waiver{{Check: "x", Fact: "shm.size", Until: later, Reason: "known", At: "p:1"}},
			[]string{"fail x w1", "warn policy "}, nil, Fail, 1},
		"two facts by two": {healthyFleet(3), says("x", Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}),
			[]Waiver{{Check: "x", Fact: "shm.mode", Until: later, Reason: "a", At: "p:1"}, {Check: "x", Fact: "shm.size", Until: "2098-01-01", Reason: "b", At: "p:2"}},
			nil, []string{"fail x w1 until 2098-01-01"}, Skip, 0},
		"two facts by two, one of which has ended": {healthyFleet(3), says("x", Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}),
			[]Waiver{{Check: "x", Fact: "shm.mode", Until: later, Reason: "a", At: "p:1"}, {Check: "x", Fact: "shm.size", Until: past, Reason: "b", At: "p:2"}},
			[]string{"fail x w1", "fail policy ", "warn policy "}, nil, Fail, 1},
		"both facts": {healthyFleet(3), says("x", Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}), []Waiver{{Check: "x", Fact: "shm.*", Until: later, Reason: "known"}},
			nil, []string{"fail x w1 until " + later}, Skip, 0},
		"a fact in short": {healthyFleet(3), says("x", Finding{Nodes: []string{"w1"}, Summary: "bad", Fact: "nvml.driver"}), []Waiver{{Check: "x", Fact: "gpu.driver", Until: later, Reason: "known"}},
			nil, []string{"fail x w1 until " + later}, Skip, 0},
	} {
		counts, waived, r := waivedRun(c.fleet, Policy{Today: "2026-11-21", Waivers: c.waivers}, c.check, says("another"))
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

// TestNamesUnlisted: what the policy names and the hostfile does not is said and no
// finding; what a filter leaves out is in the hostfile.
func TestNamesUnlisted(t *testing.T) {
	fleet := healthyFleet(2)
	fleet.Launch.HostsFile, fleet.Launch.LeftOut = "hostfile", []string{"ops@w9"}
	policy := Policy{
		File: "p", Today: "2026-11-21",
		Groups:  []Group{{Name: "a", Nodes: []string{"x1", "x2"}, At: "p:1"}, {Name: "b", Nodes: []string{"w1", "x3"}, At: "p:2"}},
		Expect:  []Expectation{{Fact: "shm.size", Is: []string{">=1"}, Nodes: []string{"x1", "x2"}, At: "p:3"}, {Fact: "shm.size", Is: []string{">=1"}, Nodes: []string{"w9"}, At: "p:4"}},
		Waivers: []Waiver{{Check: "shm-size", Nodes: []string{"W1"}, Until: "2099-01-01", At: "p:5"}, {Check: "shm-size", Until: "2099-01-01", At: "p:6"}},
	}
	told := func(policy Policy) string {
		outcome := Evaluate([]Check{policyInForce}, fleet.Fleet, fleet.Launch, policy).Checks[0]
		return string(outcome.Verdict) + " " + outcome.Reason
	}
	if got, want := told(policy), "pass not in hostfile: W1,x[1-3] (p:1, p:2, p:3, p:5)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	policy.Waivers = nil
	if got, want := told(policy), "pass not in hostfile: x[1-3] (p:1, p:2, p:3)"; got != want {
		t.Errorf("without a waiver: %q, want %q", got, want)
	}
	fleet.Launch.HostsFile = ""
	if got, want := told(policy), "skip the policy waives nothing"; got != want {
		t.Errorf("without a hostfile: %q, want %q", got, want)
	}
}

// TestAWaiverOfOnePackage does not cover another one that breaks as much and changed with it.
func TestAWaiverOfOnePackage(t *testing.T) {
	was, now := healthyFleet(1), healthyFleet(1)
	now.Nodes[0].Python.Packages["torch"] = "2.9.0"
	now.Nodes[0].Python.Packages["protobuf"] = "5.29.1"
	for fact, want := range map[string]Verdict{"python.packages.torch": Fail, "python.packages.protobuf": Fail, "python.packages.*": Skip} {
		policy := Policy{Today: "2026-11-21", Baseline: &Baseline{Nodes: was.Nodes}, Waivers: []Waiver{{Check: "drift", Fact: fact, Until: "2026-12-31"}}}
		if got := Evaluate([]Check{drift}, now.Fleet, now.Launch, policy).Checks[0]; got.Verdict != want {
			t.Errorf("waived %s: drift is %s (%s), want %s", fact, got.Verdict, got.Reason, want)
		}
	}
}

// TestWaiverInPart: one that covers a part of what was found is not unused, and says what
// it leaves.
func TestWaiverInPart(t *testing.T) {
	found := Finding{Nodes: []string{"w1", "w2"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}
	policy := Policy{Today: "2026-11-21", Waivers: []Waiver{{Check: "x", Fact: "shm.size", Until: "2099-12-31", Reason: "known", At: "p:1"}}}
	_, _, r := waivedRun(healthyFleet(3), policy, says("x", found))
	got := r.Findings[len(r.Findings)-1]
	told := Finding{
		Check: policyInForce.ID, Verdict: Warn, Nodes: []string{}, At: "p:1",
		Summary:  "the waiver of x for shm.size does not cover all that x finds on w[1-2], which counts",
		Got:      "known, stated at p:1",
		Want:     "a waiver that covers this as well: shm.mode",
		Fix:      []string{"# where that was agreed, too, waive at p:1 what is left: shm.mode"},
		WouldSee: policyInForce.WouldSee,
	}
	if diff := cmp.Diff(told, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWaivedTogether: what two waivers cover together has the words of both, each once.
func TestWaivedTogether(t *testing.T) {
	found := Finding{Nodes: []string{"w1", "w2"}, Summary: "bad", Fact: "shm.size", Facts: []string{"shm.size", "shm.mode"}}
	policy := Policy{Today: "2026-11-21", Waivers: []Waiver{
		{Check: "x", Fact: "shm.size", Until: "2099-12-31", Reason: "known", Owner: "ops", At: "p:1"},
		{Check: "x", Fact: "shm.mode", Until: "2027-01-01", Reason: "agreed", Owner: "ops", At: "p:5"},
	}}
	_, _, r := waivedRun(healthyFleet(3), policy, says("x", found))
	if len(r.Waived) != 1 {
		t.Fatalf("%d are waived, not one", len(r.Waived))
	}
	got := r.Waived[0]
	got.Finding = Finding{Nodes: got.Nodes}
	want := Waived{Finding: Finding{Nodes: []string{"w1", "w2"}}, Reason: "known; agreed", Owner: "ops", Until: "2027-01-01", At: "p:1, p:5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWaiversOfDrift: an interface that has gone is told of as a whole.
func TestWaiversOfDrift(t *testing.T) {
	for _, fact := range []string{"*", "net.interfaces.eth1", "net.interfaces.eth0.mtu", "net.mtu", "python.packages.*",
		"python.*", "python.*torch*", "nvml.*", "gpu.*", "net.*", "net.interfaces.eth0.100", "net.interfaces.eth0.addresses", "host.machine_id", "nvml.cards.3"} {
		if err := ValidWaiver(Waiver{Check: "drift", Fact: fact}); err != nil {
			t.Errorf("%s: %v", fact, err)
		}
	}
	for _, fact := range []string{"pyton.*", "net.interfaces.eth0.mtuu", "nvml.cards.3.nothing", ""} {
		if ValidWaiver(Waiver{Check: "drift", Fact: fact}) == nil {
			t.Errorf("there is no fact %q, and it may be waived", fact)
		}
	}
	if ValidWaiver(Waiver{Check: "expectation", Fact: "net.interfaces.eth1"}) == nil {
		t.Error("an expectation is never of a whole interface")
	}
}

// TestSeverities: a severity that a check has anyway changes nothing, and an error's milder
// findings stay milder.
func TestSeverities(t *testing.T) {
	plain := Finding{Nodes: []string{"w1"}, Summary: "bad"}
	milder, graver := Finding{Verdict: Warn, Nodes: []string{"w2"}, Summary: "less"}, Finding{Verdict: Fail, Nodes: []string{"w2"}, Summary: "more"}
	for _, c := range []struct {
		own, stated Severity
		other       Finding
		want        []string
	}{
		{Error, "", milder, []string{"fail x w1", "warn x w2"}},
		{Error, Error, milder, []string{"fail x w1", "warn x w2"}},
		{Error, Warning, milder, []string{"warn x w1", "warn x w2"}},
		{Warning, "", graver, []string{"fail x w2", "warn x w1"}},
		{Warning, Warning, graver, []string{"fail x w2", "warn x w1"}},
		{Warning, Error, graver, []string{"fail x w1", "fail x w2"}},
		{Warning, Error, milder, []string{"fail x w1", "fail x w2"}},
	} {
		policy, reported := Policy{Today: "2026-11-21"}, c.own
		if c.stated != "" {
			policy.Severities, reported = map[string]Severity{"x": c.stated}, c.stated
		}
		check := says("x", plain, c.other)
		check.Severity = c.own
		counts, _, r := waivedRun(healthyFleet(2), policy, check)
		if diff := cmp.Diff(c.want, counts); diff != "" {
			t.Errorf("%s stated as %q (-want +got):\n%s", c.own, c.stated, diff)
		}
		if r.Checks[0].Severity != reported {
			t.Errorf("%s stated as %q is reported as %q", c.own, c.stated, r.Checks[0].Severity)
		}
	}
}
