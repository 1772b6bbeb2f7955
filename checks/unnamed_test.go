package checks

import (
	"testing"

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
		outcome Outcome
		node    *facts.Node
		want    Verdict
		judges  bool
	}{
		{"shm-size", Outcome{Verdict: Pass}, seen, Pass, true},
		{"shm-size", Outcome{Verdict: Warn}, seen, "", true},
		{"shm-size", Outcome{Verdict: Fail}, seen, "", true},
		{"shm-size", Outcome{Verdict: Unknown}, seen, "", true},
		{"shm-size", Outcome{Verdict: Fail}, blind, Unknown, true},
		{"shm-size", Outcome{Verdict: Skip, Reason: SwitchedOff}, blind, Skip, true},
		{"shm-size", Outcome{Verdict: Skip, Reason: AllWaived}, seen, "", true},
		{"ssh-reach", Outcome{Verdict: Pass}, locked, Pass, true}, // it was reached, and let nobody in
		{"ssh-shell", Outcome{Verdict: Unknown}, locked, Unknown, true},
		{"expectation", Outcome{Verdict: Pass}, locked, Unknown, true},
		{"expectation", Outcome{Verdict: Pass}, seen, Pass, true},
		{"policy", Outcome{Verdict: Pass}, seen, "", false},
		{"launcher-ready", Outcome{Verdict: Pass}, seen, "", false},
		{"launcher-ready", Outcome{Verdict: Skip}, seen, Skip, true},
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
