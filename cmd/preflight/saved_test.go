package main

import (
	"testing"

	"preflight/checks"
	"preflight/facts"
)

// TestRejudgedStaysInterrupted: what was cut short does not become complete by
// being judged again.
func TestRejudgedStaysInterrupted(t *testing.T) {
	saved := checks.Report{Interrupted: true, Fleet: facts.Fleet{Nodes: []facts.Node{{
		Name: "w1", Reached: true, Facts: facts.Facts{SSH: &facts.SSH{}},
	}}}}
	judged := rejudge(saved, checks.Policy{Only: []string{"ssh-reach"}})
	if !judged.Interrupted || judged.Verdict != checks.Unknown || judged.ExitCode != exitTrouble {
		t.Errorf("interrupted %v, verdict %s, exit code %d", judged.Interrupted, judged.Verdict, judged.ExitCode)
	}
}
