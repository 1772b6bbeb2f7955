package catalogue

import (
	"testing"

	"preflight/checks"
	"preflight/facts"
)

// TestUnnamed: nothing is said of a node that was not looked at, and no node has passed
// because another failed.
func TestUnnamed(t *testing.T) {
	seen := &facts.Node{Name: "w1", Reached: true, Facts: facts.Facts{SHM: &facts.SHM{}}}
	blind := &facts.Node{Name: "w2", Reached: true}
	locked := &facts.Node{Name: "w3", Facts: facts.Facts{SSH: &facts.SSH{Stage: "auth", Cause: "denied"}}}
	for _, c := range []struct {
		check   string
		outcome checks.Outcome
		node    *facts.Node
		want    checks.Verdict
		judges  bool
	}{
		{"shm-size", checks.Outcome{Verdict: checks.Pass}, seen, checks.Pass, true},
		{"shm-size", checks.Outcome{Verdict: checks.Warn}, seen, "", true},
		{"shm-size", checks.Outcome{Verdict: checks.Fail}, seen, "", true},
		{"shm-size", checks.Outcome{Verdict: checks.Unknown}, seen, "", true},
		{"shm-size", checks.Outcome{Verdict: checks.Fail}, blind, checks.Unknown, true},
		{"shm-size", checks.Outcome{Verdict: checks.Skip, Reason: checks.SwitchedOff}, blind, checks.Skip, true},
		{"shm-size", checks.Outcome{Verdict: checks.Skip, Reason: checks.AllWaived}, seen, "", true},
		{"ssh-reach", checks.Outcome{Verdict: checks.Pass}, locked, checks.Pass, true}, // it was reached, and let nobody in
		{"ssh-shell", checks.Outcome{Verdict: checks.Unknown}, locked, checks.Unknown, true},
		{"expectation", checks.Outcome{Verdict: checks.Pass}, locked, checks.Unknown, true},
		{"expectation", checks.Outcome{Verdict: checks.Pass}, seen, checks.Pass, true},
		{"policy", checks.Outcome{Verdict: checks.Pass}, seen, "", false},
		{"launcher-ready", checks.Outcome{Verdict: checks.Pass}, seen, "", false},
		{"launcher-ready", checks.Outcome{Verdict: checks.Skip}, seen, checks.Skip, true},
	} {
		check, known := Lookup(c.check)
		if !known {
			t.Fatalf("there is no %s", c.check)
		}
		if got, judges := check.Unnamed(c.outcome, c.node); got != c.want || judges != c.judges {
			t.Errorf("%s, %s, %s: %q, %v, want %q, %v", c.check, c.outcome.Verdict, c.node.Name, got, judges, c.want, c.judges)
		}
	}
}
