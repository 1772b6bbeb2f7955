// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/hostfile"
)

// numbered returns "host:rank/local rank/device" for every rank, separated by spaces.
func numbered(ranks []Rank) string {
	var all []string
	for _, r := range ranks {
		all = append(all, fmt.Sprintf("%s:%d/%d/%d", r.Host, r.Rank, r.LocalRank, r.Device))
	}
	return strings.Join(all, " ")
}

func TestRanks(t *testing.T) {
	chosen := []hostfile.Host{{Name: "a", Slots: []int{2, 0}}, {Name: "b", Slots: []int{5, 6, 7}}}
	unstated := []hostfile.Host{{Name: "a"}, {Name: "b"}}
	for _, c := range []struct {
		name  string
		p     Prediction
		world int
		want  string
	}{
		{"alike", Prediction{Hosts: hosts(2, 2), Launcher: "pdsh"}, 4, "w1:0/0/0 w1:1/1/1 w2:2/0/0 w2:3/1/1"},
		// On host b, the first local rank is 2 modulo 3.
		{"a rotation where hosts differ", Prediction{Hosts: chosen, Launcher: "pdsh"}, 5, "a:0/0/2 a:1/1/0 b:2/2/7 b:3/0/5 b:4/1/6"},
		{"a rotation since 0.9.4", Prediction{Hosts: chosen, Launcher: "pdsh", DeepSpeed: "0.9.4"}, 5, "a:0/0/2 a:1/1/0 b:2/2/7 b:3/0/5 b:4/1/6"},
		{"by place before 0.9.4", Prediction{Hosts: chosen, Launcher: "pdsh", DeepSpeed: "0.9.3"}, 5, "a:0/0/2 a:1/1/0 b:2/0/5 b:3/1/6 b:4/2/7"},
		{"on this machine", Prediction{Hosts: chosen[1:], Launcher: "openmpi", Local: true}, 3, "b:0/0/5 b:1/1/6 b:2/2/7"},
		{"by hand", Prediction{Hosts: chosen, NoSSH: true}, 5, "a:0/0/2 a:1/1/0 b:2/2/7 b:3/0/5 b:4/1/6"},
		{"MPI knows no slots", Prediction{Hosts: chosen, Launcher: "openmpi"}, 5, "a:0/0/0 a:1/1/1 b:2/0/0 b:3/1/1 b:4/2/2"},
		{"a host without slots", Prediction{Hosts: hosts(1, 0, 1), Launcher: "pdsh"}, 2, "w1:0/0/0 w3:1/0/0"},
		{"slots that nobody stated", Prediction{Hosts: unstated, Launcher: "pdsh"}, 0, ""},
		{"torchrun without a command goes by the slots", Prediction{Hosts: hosts(2, 1), Rendezvous: RendezvousC10d}, 3, "w1:0/0/0 w1:1/1/1 w2:2/0/0"},
		{"and knows nothing without them", Prediction{Hosts: unstated, Rendezvous: RendezvousC10d}, 0, ""},
		{"torchrun's number", Prediction{Hosts: unstated, Rendezvous: RendezvousStatic, Script: "t.py", MaxNodes: 2, PerNode: "2"}, 4, "a:0/0/0 a:1/1/1 b:2/0/0 b:3/1/1"},
		{"one of each by default", Prediction{Hosts: hosts(8, 8), Rendezvous: RendezvousStatic, Script: "t.py"}, 1, "w1:0/0/0"},
		{"as many as there are GPUs", Prediction{Hosts: hosts(2, 2), Rendezvous: RendezvousC10d, Script: "t.py", MaxNodes: 4, PerNode: "gpu"}, 4, "w1:0/0/0 w1:1/1/1 w2:2/0/0 w2:3/1/1"},
		{"which nobody stated", Prediction{Hosts: unstated, Rendezvous: RendezvousC10d, Script: "t.py", MaxNodes: 4, PerNode: "auto"}, 0, ""},
		{"as many as there are processors", Prediction{Hosts: hosts(2, 2), Rendezvous: RendezvousC10d, Script: "t.py", MaxNodes: 2, PerNode: "cpu"}, 0, ""},
	} {
		if diff := cmp.Diff(c.want, numbered(c.p.Ranks())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
		if got := c.p.WorldSize(); got != c.world {
			t.Errorf("%s: world size %d, want %d", c.name, got, c.world)
		}
	}
	if ranks := (Prediction{Hosts: hosts(1, 0, 1), Launcher: "pdsh"}).Ranks(); ranks[1].Node != 2 {
		t.Errorf("%+v: the last is on the third host", ranks)
	}
}
