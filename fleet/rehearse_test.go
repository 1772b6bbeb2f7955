// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"testing"

	"preflight/facts"
	"preflight/launch"
)

// TestRehearsalStaysInContainers checks that a command which starts its ranks outside the nodes'
// containers is not rehearsed.
func TestRehearsalStaysInContainers(t *testing.T) {
	for name, test := range map[string]struct {
		standIn launch.StandIn
		srun    bool
		inside  []string
		refused bool
	}{
		"on the nodes":             {},
		"deepspeed, in containers": {inside: []string{"docker", "exec", "-i", "train"}, refused: true},
		"torchrun, in containers":  {standIn: launch.StandIn{Everywhere: true}, inside: []string{"docker", "exec", "-i", "train"}},
		"srun, in containers":      {srun: true, inside: []string{"docker", "exec", "-i", "train"}},
	} {
		all := membersFor(2)
		all[1].SSH = &facts.SSH{Inside: test.inside}
		r := &run{Job: Job{Rehearsal: Rehearsal{StandIn: test.standIn}}, fleet: &facts.Fleet{Nodes: make([]facts.Node, 2)}, members: all}
		r.Prediction.Srun, r.Prediction.Accelerator = test.srun, "cpu"
		if got := r.cannotRehearse(); strings.Contains(got, "outside the container") != test.refused {
			t.Errorf("%s: %q", name, got)
		}
	}
}
