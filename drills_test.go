package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// crewOf is n members without agents.
func crewOf(n int) crew {
	var c crew
	for i := range n {
		c = append(c, &member{Node: &facts.Node{Name: fmt.Sprintf("w%d", i+1), Missing: map[facts.Section]string{}}})
	}
	return c
}

func TestPlan(t *testing.T) {
	for _, n := range []int{1, 2, checks.FullMesh, checks.FullMesh + 1, 1000} {
		d := drills{crew: crewOf(n)}
		plan := d.plan()
		calledBy := make([]int, n)
		for i, called := range plan {
			want := n
			if n > checks.FullMesh {
				want = 2 + randomPeers
			}
			if len(called) != want || !slices.Contains(called, i) || !slices.Contains(called, (i+1)%n) {
				t.Errorf("of %d: node %d calls %v, want %d with itself and the next", n, i, called, want)
			}
			for _, j := range called {
				calledBy[j]++
			}
		}
		if least := slices.Min(calledBy); least < min(n, 2) {
			t.Errorf("of %d: a node is called by %d, want at least itself and the one before", n, least)
		}
	}
}

// TestUnfit: nobody is called at an address that is no use to others, and the
// reason is told.
func TestUnfit(t *testing.T) {
	holders := map[netip.Addr]int{netip.MustParseAddr("10.0.0.1"): 1, netip.MustParseAddr("172.17.0.1"): 2}
	for _, c := range []struct {
		choice launch.Choice
		want   string
	}{
		{launch.Choice{Interface: "eth0", Address: "10.0.0.1"}, ""},
		{launch.Choice{Interface: "docker0", Address: "172.17.0.1"}, "172.17.0.1 is held by 2 nodes"},
		{launch.Choice{Interface: "lo", Address: "127.0.1.1"}, "127.0.1.1 is a loopback address"},
		{launch.Choice{Error: "Bootstrap : no socket interface found"}, "Bootstrap : no socket interface found"},
		{launch.Choice{Rule: "not known: the node's interfaces were not seen"}, "not known: the node's interfaces were not seen"},
	} {
		if got := unfit(c.choice, holders); got != c.want {
			t.Errorf("%+v: %q, want %q", c.choice, got, c.want)
		}
	}
}

func TestNotTried(t *testing.T) {
	nodes := func(n int) *facts.Fleet {
		head := &facts.Node{Facts: facts.Facts{Launcher: &facts.Launcher{PDSH: &facts.PDSH{Path: "/usr/bin/pdsh"}}}}
		return &facts.Fleet{Head: head, Nodes: make([]facts.Node, n)}
	}
	bare := &facts.Fleet{Head: &facts.Node{Facts: facts.Facts{Launcher: &facts.Launcher{}}}, Nodes: make([]facts.Node, 4)}
	pdsh := launch.Prediction{Launcher: "pdsh"}
	for _, c := range []struct {
		name   string
		fleet  *facts.Fleet
		launch launch.Prediction
		policy checks.Policy
		want   string // that is not tried beside throughput and, but where something is to be compiled, toolchain
	}{
		{"a few nodes", nodes(4), pdsh, checks.Policy{}, ""},
		{"many nodes under pdsh", nodes(64), pdsh, checks.Policy{}, "logins rehearsal"},
		{"many nodes under MPI", nodes(64), launch.Prediction{Launcher: "openmpi"}, checks.Policy{}, "rehearsal"},
		{"asked for by name", nodes(64), pdsh, checks.Policy{Only: []string{"ssh-between-nodes"}}, "mesh rehearsal rendezvous"},
		{"the rehearsal is asked for by name", nodes(64), pdsh, checks.Policy{Only: []string{"launcher-ready"}}, "logins mesh rendezvous"},
		{"switched off", nodes(4), pdsh, checks.Policy{Skip: []string{"rendezvous", "launcher-ready"}}, "rehearsal rendezvous"},
		{"no pdsh", bare, pdsh, checks.Policy{}, "rehearsal"},
		{"slurm", nodes(4), launch.Prediction{Launcher: "slurm"}, checks.Policy{}, "logins rehearsal"},
		{"typed on every node", nodes(4), launch.Prediction{Rendezvous: "c10d"}, checks.Policy{}, "logins rehearsal"},
		{"one node", nodes(1), launch.Prediction{Launcher: "pdsh", Local: true}, checks.Policy{}, "logins mesh rehearsal"},
		{"on the CPU, as was asked for", nodes(4), launch.Prediction{Launcher: "pdsh", Accelerator: "cpu"}, checks.Policy{}, "nvml"},
		{"on the CPU, as nobody has a GPU", nodes(4), launch.Prediction{Launcher: "pdsh", Accelerator: "cpu", AcceleratorOpen: true}, checks.Policy{}, ""},
		{"ops to compile", nodes(4), launch.Prediction{Launcher: "pdsh", Config: &launch.Config{Ops: []string{"cpu_adam"}}}, checks.Policy{}, "-toolchain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := drills{Job: Job{Plan: Plan{Prediction: c.launch}, Policy: c.policy}, fleet: c.fleet, crew: crewOf(len(c.fleet.Nodes))}
			var got []string
			for section, reason := range d.notTried() {
				if got = append(got, string(section)); reason == "" {
					t.Errorf("%s: not tried without a reason", section)
				}
			}
			slices.Sort(got)
			want := append(strings.Fields(c.want), "throughput", "toolchain")
			slices.Sort(want)
			if c.want == "-toolchain" {
				want = []string{"throughput"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("not tried (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLaneSharesNothing: an address that two nodes hold is unfit on both, and a
// third node's own is not.
func TestLaneSharesNothing(t *testing.T) {
	c := crewOf(3)
	for i, m := range c {
		address := []string{"172.17.0.1/16", "172.17.0.1/16", "10.0.0.3/24"}[i]
		m.Net = &facts.Net{Interfaces: []facts.Interface{{Name: "eth0", Up: true, Running: true, Addresses: []string{address}}}}
	}
	d := drills{crew: c, Job: Job{Plan: Plan{Prediction: planned(t, launch.Options{Hosts: make([]hostfile.Host, 3)}).Prediction}}}
	d.shared = launch.SharedAddresses(c.nodes())
	lane := d.lane(facts.SectionMesh, func(m *member) **facts.Mesh { return &m.Mesh }, func(node *facts.Node) launch.Choice { return launch.RankAddress(d.Plan.Prediction, node) })
	want := []string{"172.17.0.1 is held by 2 nodes", "172.17.0.1 is held by 2 nodes", ""}
	if diff := cmp.Diff(want, lane.unfit); diff != "" {
		t.Errorf("unfit (-want +got):\n%s", diff)
	}
	if peers := d.peers(lane, []int{0, 1, 2}); len(peers) != 1 || peers[0].Address != "10.0.0.3" {
		t.Errorf("to be called: %+v, want only 10.0.0.3", peers)
	}
}
