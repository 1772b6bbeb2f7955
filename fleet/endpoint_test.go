// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"

	"preflight/drill"
	"preflight/facts"
)

// TestRunAt checks that a store is read with the run ID and size of the torchrun at that port.
// Other launchers give only the number of restarts.
func TestRunAt(t *testing.T) {
	at := func(port int, kind, program string, m facts.Meeting) facts.JobProcess {
		m.Port = port
		return facts.JobProcess{Kind: kind, Program: program, Meeting: m}
	}
	told := facts.Meeting{RunID: "run7", Nodes: "2:4"}
	for name, c := range map[string]struct {
		jobs *facts.Jobs
		want drill.Run
	}{
		"could not look": {},
		"torchrun":       {&facts.Jobs{Processes: []facts.JobProcess{at(29400, facts.JobLauncher, "torchrun", told)}}, drill.Run{ID: "run7", Nodes: 2}},
		"torchrun that was told no run ID, with ranks of the third attempt": {&facts.Jobs{Processes: []facts.JobProcess{
			at(29400, facts.JobLauncher, "torchrun", facts.Meeting{Nodes: "4"}), at(29400, facts.JobRank, "", facts.Meeting{Restarts: 2}),
		}}, drill.Run{ID: "none", Nodes: 4, Restarts: 2}},
		"torchrun at another port": {&facts.Jobs{Processes: []facts.JobProcess{at(29500, facts.JobLauncher, "torchrun", told)}}, drill.Run{}},
		"DeepSpeed":                {&facts.Jobs{Processes: []facts.JobProcess{at(29400, facts.JobLauncher, "deepspeed.launcher.launch", facts.Meeting{})}}, drill.Run{}},
	} {
		if got := runAt(c.jobs, 29400); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
