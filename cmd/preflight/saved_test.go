package main

import (
	"slices"
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

// TestRejudgedIsNotMissedWhatItsLaunchDoesWithout: a run from before there was the drill.
func TestRejudgedIsNotMissedWhatItsLaunchDoesWithout(t *testing.T) {
	for launcher, want := range map[string]checks.Verdict{"pdsh": checks.Skip, "openmpi": checks.Unknown} {
		head := &facts.Node{Name: "head", Facts: facts.Facts{Launcher: &facts.Launcher{MPIRun: &facts.MPIRun{Options: facts.OptionsOpenMPI}}}}
		saved := checks.Report{Fleet: facts.Fleet{Head: head, Nodes: []facts.Node{{Name: "w1", Reached: true}, {Name: "w2", Reached: true}}}}
		saved.Launch.Launcher = launcher
		judged := rejudge(saved, checks.Policy{Only: []string{"launcher-callback"}})
		i := slices.IndexFunc(judged.Checks, func(o checks.Outcome) bool { return o.Check == "launcher-callback" })
		if got := judged.Checks[i]; got.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", launcher, got.Verdict, got.Reason, want)
		}
	}
}
