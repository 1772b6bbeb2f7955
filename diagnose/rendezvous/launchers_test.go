// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// TestSilentLaunchers checks that launchers without recent heartbeats are named. If a launcher's
// own node has read the store, the clock of that node counts.
func TestSilentLaunchers(t *testing.T) {
	heard := func(address string, pid int, ago float64) facts.Gatherer {
		return facts.Gatherer{Address: address, PID: pid, Silent: &ago}
	}
	unsaid := facts.Gatherer{Address: "w3", PID: 7}
	agreed := func(all ...facts.Gatherer) *facts.Gathering { return &facts.Gathering{Joined: all} }
	silent := func(who, ago string) string {
		return who + " has sent no heartbeat for " + ago + ": it has ended or hangs, or its clock is behind, so the others treat it as dead"
	}
	closed := agreed(heard("w3", 7, 95))
	closed.Closed = true
	for _, c := range []struct {
		name string
		seen map[string]*facts.Gathering
		want []string // nodes and summary
	}{
		{"all beat", map[string]*facts.Gathering{"w1": agreed(heard("w1", 5, 2), heard("w3", 7, 14))}, nil},
		{"one does not", map[string]*facts.Gathering{"w1": agreed(heard("w1", 5, 2), heard("w3.cluster", 7, 95)), "w3": nil},
			[]string{silent("[w3] w3.cluster's launcher (pid 7)", "95 s")}},
		{"one that waits for the next round does not", map[string]*facts.Gathering{"w1": {Waiting: agreed(heard("w3", 7, 95)).Joined}, "w3": nil},
			[]string{silent("[w3] w3's launcher (pid 7)", "95 s")}},
		{"one is on a node that we do not know", map[string]*facts.Gathering{"w1": agreed(heard("w9", 7, 300))},
			[]string{silent("[] w9's launcher (pid 7)", "5 min")}},
		{"two nodes whose names begin alike", map[string]*facts.Gathering{"w1": agreed(heard("w11", 7, 95))},
			[]string{silent("[] w11's launcher (pid 7)", "95 s")}},
		{"the clock of w3 is behind", map[string]*facts.Gathering{"w1": agreed(heard("w3", 7, 40)), "w2": agreed(heard("w3", 7, 38)), "w3": agreed(heard("w3", 7, 3))},
			[]string{"[w3] the clock of w3 is 37 s behind that of w1, w2: its launcher sends heartbeats, but they treat it as dead"}},
		{"the clock of w1 is ahead", map[string]*facts.Gathering{"w1": agreed(heard("w1", 5, 2), heard("w2", 6, 51), heard("w3", 7, 53)), "w2": agreed(heard("w1", 5, -48), heard("w2", 6, 1)), "w3": agreed(heard("w3", 7, 3))},
			[]string{"[w1] the clock of w1 is 50 s ahead of that of w2, w3: their launchers send heartbeats, but it treats them as dead"}},
		{"the clocks of two differ", map[string]*facts.Gathering{"w1": agreed(heard("w3", 7, 40)), "w3": agreed(heard("w3", 7, 3))},
			[]string{"[w1 w3] the clock of w1 is 37 s ahead of that of w3: their launchers send heartbeats, but it treats them as dead"}},
		{"the clocks differ by less than torch minds", map[string]*facts.Gathering{"w1": agreed(heard("w3", 7, 14)), "w3": agreed(heard("w3", 7, 1))}, nil},
		{"the clock of w1 is behind, and w3 says that it is silent", map[string]*facts.Gathering{"w1": agreed(heard("w3", 7, 3)), "w3": agreed(heard("w3", 7, 40))},
			[]string{silent("[w3] w3's launcher (pid 7)", "40 s")}},
		{"two others have clocks of their own", map[string]*facts.Gathering{"w1": agreed(heard("w9", 7, 40)), "w2": agreed(heard("w9", 7, 4))}, nil},
		{"an earlier launcher of the node is another", map[string]*facts.Gathering{"w1": agreed(heard("w3", 6, 40)), "w3": agreed(heard("w3", 7, 4))},
			[]string{silent("[w3] w3's launcher (pid 6)", "40 s")}},
		{"the store does not say", map[string]*facts.Gathering{"w1": agreed(unsaid)}, nil},
		{"the job has ended", map[string]*facts.Gathering{"w1": closed}, nil},
		{"nobody has read it", map[string]*facts.Gathering{"w1": nil}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Report{Endpoint: "10.0.0.1:29400", Here: *store("10.0.0.1")}
			for _, name := range []string{"w1", "w2", "w3"} {
				if agreed, asked := c.seen[name]; asked {
					seen := store("10.0.0.1")
					seen.Gathering = agreed
					r.Nodes = append(r.Nodes, Node{Node: facts.Node{Name: name, Reached: true}, Seen: seen})
				}
			}
			Judge(&r, 0)
			var got []string
			for _, f := range r.Findings {
				got = append(got, fmt.Sprint(f.Nodes)+" "+f.Summary)
				if len(f.Fix) == 0 {
					t.Errorf("%q names no way out", f.Summary)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
