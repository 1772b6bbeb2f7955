// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// TestRehearseSrun runs a stand-in for srun, which starts the command twice on w1 and never on w3.
func TestRehearseSrun(t *testing.T) {
	nodes := []string{"w1", "w2", "w3"}
	for _, tt := range []struct {
		script string
		limit  time.Duration
		want   facts.Rehearsal
	}{
		{`[ "$1 $2" = "-c 4" ] || exit 9; shift 2; echo note >&2; for SLURMD_NODENAME in w1 w2 w1; do export SLURMD_NODENAME; "$@"; done`, time.Minute, facts.Rehearsal{
			Nodes: []facts.RehearsalNode{node("w1", 0, 1), node("w2", 0), node("w3")}, Complaints: []string{"note"},
		}},
		{`for SLURMD_NODENAME in w1.cluster w2 w4; do export SLURMD_NODENAME; shift 2; "$@"; set -- -c 4 "$@"; done`, time.Minute, facts.Rehearsal{
			Problem: "w4 answered, which is no host of the launch under this name", Nodes: []facts.RehearsalNode{node("w1", 0), node("w2", 0), node("w3")},
		}},
		{`echo "srun: error: no" >&2; exit 3`, time.Minute, facts.Rehearsal{
			ExitCode: 3, Nodes: []facts.RehearsalNode{node("w1"), node("w2"), node("w3")}, Complaints: []string{"srun: error: no"},
		}},
		{"sleep 100", time.Second, facts.Rehearsal{
			ExitCode: -1, Problem: "killed because it had not finished after 1 s", Nodes: []facts.RehearsalNode{node("w1"), node("w2"), node("w3")},
		}},
	} {
		standIn(t, "srun", tt.script)
		got := RehearseSrun(t.Context(), []string{"srun", "-c", "4"}, nodes, tt.limit)
		if diff := cmp.Diff(tt.want, got, loose); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.script, diff)
		}
	}
}
