// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"preflight/checks"
	"preflight/facts"
)

// TestRejudgedStaysInterrupted checks that an interrupted run stays interrupted when it is checked
// again.
func TestRejudgedStaysInterrupted(t *testing.T) {
	saved := checks.Report{Interrupted: true, Fleet: facts.Fleet{Nodes: []facts.Node{{
		Name: "w1", Reached: true, Facts: facts.Facts{SSH: &facts.SSH{}},
	}}}}
	judged := rejudge(saved, checks.Policy{Only: []string{"ssh-reach"}})
	if !judged.Interrupted || judged.Verdict != checks.Unknown || judged.ExitCode != exitTrouble {
		t.Errorf("interrupted %v, verdict %s, exit code %d", judged.Interrupted, judged.Verdict, judged.ExitCode)
	}
}

// TestRejudgedIsNotMissedWhatItsLaunchDoesWithout checks a run that was saved before the callback
// test existed.
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

// TestRejudgedIsNotMissedTheHub checks a run that was saved before the hub test existed, on nodes
// that have the model and on nodes that lack it.
func TestRejudgedIsNotMissedTheHub(t *testing.T) {
	for commit, want := range map[string]checks.Verdict{"ab12c0de": checks.Skip, "": checks.Unknown} {
		model := facts.Model{ModelNamed: facts.ModelNamed{Name: "org/model", Revision: "main"}, Commit: commit}
		node := facts.Node{Name: "w1", Reached: true, Facts: facts.Facts{Env: &facts.Env{}, Files: &facts.Files{Models: []facts.Model{model}}}}
		saved := checks.Report{Fleet: facts.Fleet{Nodes: []facts.Node{node}}}
		saved.Launch.Models = []facts.ModelNamed{model.ModelNamed}
		judged := rejudge(saved, checks.Policy{Only: []string{"hub-reach"}})
		i := slices.IndexFunc(judged.Checks, func(o checks.Outcome) bool { return o.Check == "hub-reach" })
		if got := judged.Checks[i]; got.Verdict != want {
			t.Errorf("commit %q: %s (%s), want %s", commit, got.Verdict, got.Reason, want)
		}
	}
}

// TestRejudgedIsNotMissedTheSmokeTest checks a run that was saved before --smoke existed, and a run
// that used --smoke.
func TestRejudgedIsNotMissedTheSmokeTest(t *testing.T) {
	only := []string{"gpu-computes", "gpu-copies", "collective-node", "collective", "collective-speed"}
	dark := facts.Node{Name: "w2", Missing: map[facts.Section]string{facts.SectionSmoke: "not reached"}}
	lost := facts.Node{Name: "w1", Reached: true, Missing: map[facts.Section]string{facts.SectionSmoke: "the connection was lost"}}
	for name, c := range map[string]struct {
		nodes       []facts.Node
		interrupted bool
		want        checks.Verdict
	}{
		"from before":    {[]facts.Node{{Name: "w1", Reached: true}, dark}, false, checks.Skip},
		"lost meanwhile": {[]facts.Node{lost, {Name: "w2", Reached: true}}, false, checks.Unknown},
		"interrupted":    {[]facts.Node{{Name: "w1", Reached: true}}, true, checks.Unknown},
		"nobody reached": {[]facts.Node{dark}, false, checks.Unknown},
	} {
		judged := rejudge(checks.Report{Fleet: facts.Fleet{Nodes: c.nodes}, Interrupted: c.interrupted}, checks.Policy{Only: only})
		for _, got := range judged.Checks {
			if slices.Contains(only, got.Check) && got.Verdict != c.want {
				t.Errorf("%s: %s is %s (%s), want %s", name, got.Check, got.Verdict, got.Reason, c.want)
			}
		}
	}
}
