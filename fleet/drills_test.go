// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/launch/dsconfig"
	"preflight/launch/nccl"
	"preflight/remote"
)

// membersFor returns n members without agents.
func membersFor(n int) members {
	var all members
	for i := range n {
		all = append(all, &member{
			agent: &remote.Agent{}, Node: &facts.Node{Name: fmt.Sprintf("w%d", i+1), Missing: map[facts.Section]string{}},
			position: i,
		})
	}
	return all
}

func TestCallees(t *testing.T) {
	for _, n := range []int{1, 2, 3, 16, 63, facts.FullMesh, facts.FullMesh + 1, 1000} {
		r := run{members: membersFor(n)}
		calls, knocks := r.callees()
		want := 1 + n/2
		if n > facts.FullMesh {
			want = 1 + facts.SampledPeers
		}
		calledBy := make([]int, n)
		for i, called := range calls {
			if len(called) != want || called[0] != i {
				t.Errorf("of %d: node %d calls %v, want %d with itself first", n, i, called, want)
			}
			for _, j := range called {
				calledBy[j]++
			}
			for _, j := range knocks[i] {
				if !slices.Contains(calls[j], i) {
					t.Errorf("of %d: node %d only knocks at %d, which does not call it", n, i, j)
				}
			}
			tried := slices.Concat(called, knocks[i])
			slices.Sort(tried)
			if tried = slices.Compact(tried); len(tried) != len(called)+len(knocks[i]) || n <= facts.FullMesh && len(tried) != n {
				t.Errorf("of %d: node %d calls %v and knocks at %v, want everybody once", n, i, called, knocks[i])
			}
		}
		if slices.Min(calledBy) != want || slices.Max(calledBy) != want {
			t.Errorf("of %d: nodes are called by %d to %d, want %d", n, slices.Min(calledBy), slices.Max(calledBy), want)
		}
	}
}

// TestUnfit checks that no node is called at an address that other nodes cannot use, and that the
// reason is reported.
func TestUnfit(t *testing.T) {
	holders := map[netip.Addr]int{netip.MustParseAddr("10.0.0.1"): 1, netip.MustParseAddr("172.17.0.1"): 2}
	for _, c := range []struct {
		choice nccl.Choice
		want   string
	}{
		{nccl.Choice{Interface: "eth0", Address: "10.0.0.1"}, ""},
		{nccl.Choice{Interface: "docker0", Address: "172.17.0.1"}, "172.17.0.1 is the address of 2 nodes"},
		{nccl.Choice{Interface: "lo", Address: "127.0.1.1"}, "127.0.1.1 is a loopback address"},
		{nccl.Choice{Error: "Bootstrap : no socket interface found"}, "Bootstrap : no socket interface found"},
		{nccl.Choice{Rule: "not known: the node's interfaces were not seen"}, "not known: the node's interfaces were not seen"},
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
	mpi := nodes(4)
	mpi.Head.Launcher.MPIRun = &facts.MPIRun{Options: facts.OptionsHydra}
	for _, c := range []struct {
		name   string
		fleet  *facts.Fleet
		launch launch.Prediction
		only   string
		skip   []string
		want   string // drills not tried; hub, rails, rehearsed, shared, throughput, (unless something must be compiled) toolchain and (unless asked for) kernel_log are implied
	}{
		{"a few nodes", nodes(4), pdsh, "", nil, "callback"},
		{"of mpirun", mpi, launch.Prediction{Launcher: "mpich"}, "", nil, "rehearsal"},
		{"many nodes under pdsh", nodes(64), pdsh, "", nil, "callback logins rehearsal"},
		{"nodes that mpirun starts by itself", nodes(64), launch.Prediction{Launcher: "openmpi", Hosts: make([]hostfile.Host, 64)}, "", nil, "callback logins rehearsal"},
		{"nodes that start others", nodes(65), launch.Prediction{Launcher: "openmpi", Hosts: make([]hostfile.Host, 65)}, "", nil, "callback rehearsal"},
		{"asked for by name", nodes(64), pdsh, "ssh-between-nodes", nil, "callback mesh rehearsal rendezvous"},
		{"the rehearsal is asked for by name", nodes(64), pdsh, "launcher-ready", nil, "callback logins mesh rendezvous"},
		{"the kernel's log is asked for by name", nodes(4), pdsh, checkOOM, nil, "callback logins mesh rehearsal rendezvous"},
		{"switched off", nodes(4), pdsh, "", []string{"rendezvous", "launcher-ready"}, "callback rehearsal rendezvous"},
		{"no pdsh", bare, pdsh, "", nil, "callback rehearsal"},
		{"slurm", nodes(4), launch.Prediction{Launcher: "slurm"}, "", nil, "callback logins rehearsal"},
		{"typed on every node", nodes(4), launch.Prediction{Rendezvous: "c10d"}, "", nil, "callback logins rehearsal"},
		{"one node", nodes(1), launch.Prediction{Launcher: "pdsh", Local: true}, "", nil, "callback logins mesh rehearsal"},
		{"on the CPU, as was asked for", nodes(4), launch.Prediction{Launcher: "pdsh", Accelerator: "cpu"}, "", nil, "callback nvml"},
		{"on the CPU, as nobody has a GPU", nodes(4), launch.Prediction{Launcher: "pdsh", Accelerator: "cpu", AcceleratorAssumed: true}, "", nil, "callback"},
		{"ops to compile", nodes(4), launch.Prediction{Launcher: "pdsh", Config: &dsconfig.Config{Ops: []string{"cpu_adam"}}}, "", nil, "-toolchain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.launch.MasterPort, c.launch.RdzvEndpoint = 29500, "10.0.0.1"
			job := Job{
				Prediction: c.launch,
				AskedFor:   func(check string) bool { return check == c.only },
				SwitchedOff: func(check string) string {
					if c.only != "" && check != c.only || slices.Contains(c.skip, check) {
						return "switched off"
					}
					return ""
				},
			}
			r := run{Job: job, fleet: c.fleet, members: membersFor(len(c.fleet.Nodes))}
			c.fleet.Nodes[0].Name = r.members[0].Name
			r.members[0].Net = &facts.Net{Interfaces: []facts.Interface{{Name: "eth0", Up: true, Addresses: []string{"10.0.0.1/24"}}}}
			var got []string
			for section, reason := range r.notTried() {
				if got = append(got, string(section)); reason == "" {
					t.Errorf("%s: not tried without a reason", section)
				}
			}
			slices.Sort(got)
			want := append(strings.Fields(c.want), "hub", "rails", "rehearsed", "shared", "smoke", "throughput", "toolchain")
			if c.want == "-toolchain" {
				want = []string{"callback", "hub", "rails", "rehearsed", "shared", "smoke", "throughput"}
			}
			if c.only != checkOOM {
				want = append(want, "kernel_log")
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("not tried (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlannedAddressesAreNotShared checks that an address of two nodes is unfit on both nodes, and
// that a third node's own address is fit.
func TestPlannedAddressesAreNotShared(t *testing.T) {
	all := membersFor(3)
	for i, m := range all {
		address := []string{"172.17.0.1/16", "172.17.0.1/16", "10.0.0.3/24"}[i]
		m.Net = &facts.Net{Interfaces: []facts.Interface{{Name: "eth0", Up: true, Running: true, Addresses: []string{address}}}}
	}
	r := run{members: all, shared: launch.SharedAddresses(all.nodes())}
	r.Prediction.Accelerator = "cuda"
	plan := addressPlans()[0]
	r.settle(plan)
	want := []string{"172.17.0.1 is the address of 2 nodes", "172.17.0.1 is the address of 2 nodes", ""}
	var got []string
	for _, m := range all {
		got = append(got, plan.places[m].unfit)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unfit (-want +got):\n%s", diff)
	}
	if peers := r.peers(plan, []int{0, 1, 2}); len(peers) != 1 || peers[0].Address != "10.0.0.3" {
		t.Errorf("to be called: %+v, want only 10.0.0.3", peers)
	}
}
