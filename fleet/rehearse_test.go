// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"os"
	"path/filepath"
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

// TestRehearsalAgain checks that pdsh runs once more if an sshd ended its connection before the login,
// and for no other failure. pdsh here answers only the second time.
func TestRehearsalAgain(t *testing.T) {
	for says, again := range map[string]bool{
		"kex_exchange_identification: Connection closed by remote host": true,
		"Connection reset by 10.0.0.2 port 22":                          true,
		"Permission denied (publickey).":                                false,
	} {
		dir := t.TempDir()
		pdsh := filepath.Join(dir, "pdsh")
		script := "#!/bin/sh\ncd " + dir + "\n[ -e tried ] || { touch tried; echo \"w1: " + says + "\" >&2; exit 0; }\n" +
			`for word; do :; done; echo "w1: ${word%-*}-0"` + "\n"
		if err := os.WriteFile(pdsh, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		all := membersFor(1)
		all[0].Name, all[0].SSH = "w1", &facts.SSH{}
		head := &facts.Node{Facts: facts.Facts{Launcher: &facts.Launcher{PDSH: &facts.PDSH{Path: pdsh}}}}
		r := &run{fleet: &facts.Fleet{Head: head, Nodes: make([]facts.Node, 1)}, members: all}
		r.rehearsal(t.Context(), Drill{})
		r.rehearseAgain(t.Context())
		if answered := len(head.Rehearsal.Nodes[0].Ranks) > 0; answered != again {
			t.Errorf("%s: ran again: %v, want %v: %+v", says, answered, again, head.Rehearsal)
		}
	}
}
