// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
	"preflight/testhosts/fleettest"
)

// adviceOf returns the advice in the form of a command line.
func adviceOf(a checks.Advice) []string {
	options := []string{}
	for _, env := range a.Env {
		options = append(options, env.Name+"="+env.Value)
	}
	for _, arg := range a.Args {
		options = append(options, a.Program+" "+arg)
	}
	for _, env := range a.Seen {
		options = append(options, "seen: "+env.Name+"="+env.Value)
	}
	return options
}

// missed simulates two rendezvous. The one at the launch's endpoint does not bring all nodes
// together, and the one at the address that leads to the peers does.
func missed(l *fleettest.Fleet, endpoint string) {
	for i := range l.Nodes {
		l.Nodes[i].PeerRendezvous = l.Nodes[i].Rendezvous
		l.Nodes[i].Rendezvous = &facts.Rendezvous{Endpoint: endpoint, Serves: i == 0, Failed: facts.HopConnect}
	}
}

func roce(node *facts.Node, port int) {
	seen := &node.IB.Devices[port].Ports[0]
	seen.LinkLayer = "Ethernet"
	seen.GIDs = []facts.GID{
		{Index: 0, GID: "fe80:0000:0000:0000:0000:0000:0000:0001", Type: "IB/RoCE v1"},
		{Index: 1, GID: "0000:0000:0000:0000:0000:ffff:0a00:0001", Type: "IB/RoCE v1"},
		{Index: 3, GID: "0000:0000:0000:0000:0000:ffff:0a00:0001", Type: "RoCE v2"},
	}
}

// railed gives every node two RoCE ports, each on its own switch. All connections succeed, except
// those for which failed returns true.
func railed(l *fleettest.Fleet, failed func(from, to string, rail int) bool) {
	for i := range l.Nodes {
		node := &l.Nodes[i]
		node.Rails = &facts.Rails{}
		for port := range 2 {
			roce(node, port)
			rail := facts.Rail{Name: fmt.Sprintf("mlx5_%d:1", port), Layer: nccl.LayerRoCE, Across: &facts.Mesh{}}
			rail.Same.Reached = map[string]float64{}
			for _, peer := range l.Nodes {
				switch {
				case peer.Name == node.Name:
					continue
				case failed(node.Name, peer.Name, port):
					rail.Same.Failed = append(rail.Same.Failed, facts.Path{Peer: peer.Name, Outcome: facts.PathUnresolved})
				default:
					rail.Same.Reached[peer.Name] = 0.001
				}
				rail.Across.Failed = append(rail.Across.Failed, facts.Path{Peer: peer.Name, Outcome: facts.PathRefused})
			}
			node.Rails.Rails = append(node.Rails.Rails, rail)
		}
	}
}

func TestAdvice(t *testing.T) {
	const nccl, gloo = "NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"
	each := func(l *fleettest.Fleet, change func(*facts.Node)) {
		for i := range l.Nodes {
			change(&l.Nodes[i])
		}
	}
	for name, c := range map[string]struct {
		change func(*fleettest.Fleet)
		want   []string
	}{
		"healthy": {func(l *fleettest.Fleet) {}, []string{nccl, gloo}},
		"caches on NFS": {func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) {
				n.Disk.Places[3].Path, n.Disk.Places[3].FSType, n.Disk.Places[3].Source = "/home/train/.triton", "nfs4", "filer:/home"
			})
		}, []string{nccl, gloo, "TRITON_CACHE_DIR=/var/tmp/triton-train"}},
		"on cpu":                    {func(l *fleettest.Fleet) { l.Launch.Accelerator = "cpu" }, []string{gloo}},
		"one node not reached":      {func(l *fleettest.Fleet) { l.Nodes[2].Reached = false }, []string{}},
		"one node's network unseen": {func(l *fleettest.Fleet) { l.Nodes[2].Net = nil }, []string{}},
		"no drill":                  {func(l *fleettest.Fleet) { each(l, func(n *facts.Node) { n.Mesh = nil }) }, []string{}},
		"one node took no part":     {func(l *fleettest.Fleet) { l.Nodes[2].Mesh = nil }, []string{}},
		"one node did not listen":   {func(l *fleettest.Fleet) { l.Nodes[2].Mesh.Error = "bind: in use" }, []string{}},
		"one path failed":           {func(l *fleettest.Fleet) { l.Nodes[2].Mesh.Failed = []facts.Path{{Peer: "w1"}} }, []string{}},
		"one path was not tried":    {func(l *fleettest.Fleet) { delete(l.Nodes[2].Mesh.Reached, "w1") }, []string{}},
		"everybody tried the next only": {func(l *fleettest.Fleet) {
			for i := range l.Nodes {
				l.Nodes[i].Mesh.Reached = map[string]float64{l.Nodes[i].Name: 1, l.Nodes[(i+1)%4].Name: 1}
			}
		}, []string{}},
		"a node that is not its own": {func(l *fleettest.Fleet) { delete(l.Nodes[2].Mesh.Reached, "w3") }, []string{}},
		"two cards, the first used": {func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) { fleettest.SetCard(n, 3, "eth01", "192.168.7.1/24") })
		}, []string{"NCCL_SOCKET_IFNAME==eth0", gloo}},
		"a prefix of two names": {func(l *fleettest.Fleet) {
			fleettest.Rename(&l.Nodes[0], "enp4s0")
			fleettest.Rename(&l.Nodes[1], "enp5s0")
			fleettest.Rename(&l.Nodes[2], "enp4s0")
			fleettest.Rename(&l.Nodes[3], "enp4s0")
		},
			[]string{"NCCL_SOCKET_IFNAME=enp"}},
		"a list of names": {func(l *fleettest.Fleet) { fleettest.Rename(&l.Nodes[0], "enp4s0") }, []string{"NCCL_SOCKET_IFNAME==enp4s0,eth0"}},
		"no list fits": {func(l *fleettest.Fleet) {
			fleettest.Rename(&l.Nodes[0], "enp4s0")
			fleettest.SetCard(&l.Nodes[0], 3, "eth0", "192.168.7.1/24")
		}, []string{}},
		"not the first address of its interface": {func(l *fleettest.Fleet) {
			l.Nodes[0].Net.Interfaces[1].Addresses = []string{"192.168.7.1/24", "10.0.0.1/16"}
		}, []string{}},
		"overridden by NCCL_COMM_ID": {func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) { fleettest.SetCard(n, 3, "eth1", "192.168.7.1/24") })
			l.Launch.Exports = []facts.Setting{{Name: "NCCL_COMM_ID", Value: "192.168.7.9:4000"}}
		}, []string{gloo}},
		"only the peers' addresses passed": {func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) {
				fleettest.SetCard(n, 1, "br-5f3c", "172.18.0.1/16")
				n.PeerMesh = n.Mesh
				n.Mesh = &facts.Mesh{Interface: "br-5f3c", Address: "172.18.0.1", Error: "held by 4 nodes"}
			})
		}, []string{nccl, gloo}},
		"rails that do not answer each other": {func(l *fleettest.Fleet) {
			railed(l, func(string, string, int) bool { return false })
		}, []string{"NCCL_CROSS_NIC=0", nccl, gloo}},
		"rails of which it is not known": {func(l *fleettest.Fleet) {
			railed(l, func(string, string, int) bool { return false })
			l.Nodes[2].Rails.Rails[0].Across.Failed[0].Outcome = facts.PathDropped
		}, []string{nccl, gloo}},
		"rails that answer each other": {func(l *fleettest.Fleet) {
			railed(l, func(string, string, int) bool { return false })
			l.Nodes[2].Rails.Rails[0].Across = &facts.Mesh{Reached: map[string]float64{"w1": 0.001}}
		}, []string{nccl, gloo}},
		"a rail that fails somewhere": {func(l *fleettest.Fleet) {
			railed(l, func(from, to string, rail int) bool { return rail == 1 && from == "w1" && to == "w3" })
		}, []string{"NCCL_IB_HCA==mlx5_0:1", "NCCL_CROSS_NIC=0", nccl, gloo}},
		"rails that all fail somewhere": {func(l *fleettest.Fleet) {
			railed(l, func(from, to string, _ int) bool { return from == "w1" && to == "w3" })
		}, []string{nccl, gloo}},
		"neither passed": {func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) {
				n.PeerMesh = &facts.Mesh{Interface: "eth0", Address: n.Address, Failed: []facts.Path{{Peer: "w1"}}}
				n.Mesh = &facts.Mesh{Error: "no"}
			})
		}, []string{}},
		"a name that no line can hold": {func(l *fleettest.Fleet) { each(l, func(n *facts.Node) { fleettest.Rename(n, "e$(x)") }) }, []string{}},

		"met at both":                 {func(l *fleettest.Fleet) { each(l, func(n *facts.Node) { n.PeerRendezvous = n.Rendezvous }) }, []string{nccl, gloo}},
		"another master":              {func(l *fleettest.Fleet) { missed(l, "172.17.0.1:29500") }, []string{nccl, gloo, "deepspeed --master_addr=10.0.0.1"}},
		"another master, not for all": {func(l *fleettest.Fleet) { missed(l, "172.17.0.1:29500"); l.Nodes[1].PeerRendezvous = nil }, []string{nccl, gloo}},
		"another master, failed there too": {func(l *fleettest.Fleet) {
			missed(l, "172.17.0.1:29500")
			l.Nodes[1].PeerRendezvous.Failed = facts.HopWait
		}, []string{nccl, gloo}},
		"a launcher that passes no address": {func(l *fleettest.Fleet) { missed(l, "172.17.0.1:29500"); l.Launch.Launcher = "openmpi" }, []string{nccl, gloo}},
		"another endpoint": {func(l *fleettest.Fleet) {
			l.Launch.Rendezvous, l.Launch.RdzvEndpoint = launch.RendezvousC10d, "w1.lan:29500"
			missed(l, "w1.lan:29500")
		}, []string{nccl, gloo, "torchrun --rdzv_endpoint=10.0.0.1:29500"}},
		"torchrun's default endpoint": {func(l *fleettest.Fleet) {
			l.Launch.Rendezvous = launch.RendezvousC10d
			missed(l, "localhost:29400")
		}, []string{nccl, gloo, "torchrun --rdzv_endpoint=10.0.0.1:29500"}},
		"torchrun's static endpoint": {func(l *fleettest.Fleet) {
			l.Launch.Rendezvous, l.Launch.RdzvEndpoint = launch.RendezvousStatic, "172.17.0.1:29500"
			missed(l, "172.17.0.1:29500")
		}, []string{nccl, gloo, "torchrun --rdzv_endpoint=10.0.0.1:29500"}},
		"another endpoint, where nobody would serve": {func(l *fleettest.Fleet) {
			l.Launch.Rendezvous, l.Launch.RdzvEndpoint = launch.RendezvousC10d, "w1.lan:29500"
			missed(l, "w1.lan:29500")
			l.Nodes[0].Names.Lookups[0].Addresses = []string{"127.0.1.1"}
		}, []string{nccl, gloo}},

		"InfiniBand beside Ethernet": {func(l *fleettest.Fleet) { each(l, func(n *facts.Node) { roce(n, 1) }) }, []string{nccl, gloo, "seen: NCCL_IB_HCA==mlx5_0:1"}},
		"the like, not on one node": {func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) { roce(n, 1) })
			l.Nodes[1] = fleettest.Healthy(4).Nodes[1]
		}, []string{nccl, gloo}},
		"the like, already chosen": {func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) { roce(n, 1) })
			l.Launch.Exports = []facts.Setting{{Name: "NCCL_IB_HCA", Value: "mlx5_0"}}
		}, []string{nccl, gloo}},
		"RoCE with an old NCCL": {func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) { roce(n, 0); roce(n, 1); n.Python.NCCL[0].Version = "2.20.5" })
		}, []string{nccl, gloo, "seen: NCCL_IB_GID_INDEX=3"}},
		"RoCE with a new NCCL": {func(l *fleettest.Fleet) { each(l, func(n *facts.Node) { roce(n, 0); roce(n, 1) }) }, []string{nccl, gloo}},
		"RoCE, another index on one node": {func(l *fleettest.Fleet) {
			each(l, func(n *facts.Node) { roce(n, 0); roce(n, 1); n.Python.NCCL[0].Version = "2.20.5" })
			l.Nodes[3].IB.Devices[1].Ports[0].GIDs[2].Index = 5
		}, []string{nccl, gloo}},
	} {
		fleet := fleettest.Healthy(4)
		c.change(&fleet)
		if diff := cmp.Diff(c.want, adviceOf(Advise(checks.View{All: fleet.Nodes, Launch: fleet.Launch}))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAdviceSaysTheProof(t *testing.T) {
	for size, want := range map[int]string{
		4:   "12 of 12 pairs answered on eth0",
		150: "all 1050 sampled pairs of 22350 answered on eth0",
	} {
		fleet := fleettest.Healthy(size)
		advice := Advise(checks.View{All: fleet.Nodes, Launch: fleet.Launch})
		if len(advice.Env) == 0 || advice.Env[0].Why != want {
			t.Errorf("%d nodes: %+v, want the proof %q", size, advice.Env, want)
		}
	}
	if advice := Advise(checks.View{All: fleettest.Healthy(1).Nodes, Launch: fleettest.Healthy(1).Launch}); len(adviceOf(advice)) > 0 {
		t.Errorf("a single node is advised %+v", advice)
	}
}

// TestAdviceIsProven simulates random faults. For all advice, every node must have connected to
// every other node at the very address that the advice selects.
func TestAdviceIsProven(t *testing.T) {
	given := 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 7))
		fleet := fleettest.Healthy(2 + random.IntN(4))
		for range random.IntN(4) {
			plant(random, &fleet)
		}
		for _, advised := range Advise(checks.View{All: fleet.Nodes, Launch: fleet.Launch}).Env {
			choose, isInterface := map[string]func(launch.Prediction, *facts.Node) nccl.Choice{
				"NCCL_SOCKET_IFNAME": nccl.Bootstrap, "GLOO_SOCKET_IFNAME": nccl.Gloo,
			}[advised.Name]
			if !isInterface {
				continue
			}
			given++
			if problem := unproven(fleet, ranks.Exporting(fleet.Launch, advised.Name, advised.Value), choose); problem != "" {
				t.Fatalf("seed %d: %s=%s: %s", seed, advised.Name, advised.Value, problem)
			}
			if strings.ContainsAny(advised.Value, " \t\n'\"$`") {
				t.Errorf("seed %d: %s=%q is no line of a .deepspeed_env", seed, advised.Name, advised.Value)
			}
		}
	}
	if given < 500 {
		t.Errorf("advice was given %d times only: the faults hide everything", given)
	}
}

// unproven describes a pair of nodes that did not connect at the addresses on which the ranks of
// such a launch will listen. It returns "" if there is no such pair.
func unproven(fleet fleettest.Fleet, prediction launch.Prediction, choose func(launch.Prediction, *facts.Node) nccl.Choice) string {
	for i := range fleet.Nodes {
		callee := &fleet.Nodes[i]
		for _, caller := range fleet.Nodes {
			proven := false
			for _, mesh := range []func(*facts.Node) *facts.Mesh{proof.RankMesh, proof.PeerMesh} {
				theirs, ours := mesh(&caller), mesh(callee)
				if theirs == nil || ours == nil || ours.Error != "" || ours.Address != choose(prediction, callee).Address {
					continue
				}
				_, answered := theirs.Reached[callee.Name]
				proven = proven || answered
			}
			if !proven {
				return fmt.Sprintf("%s was not seen to reach %s there", caller.Name, callee.Name)
			}
		}
	}
	return ""
}

// plant breaks one random property of a fleet.
func plant(random *rand.Rand, fleet *fleettest.Fleet) {
	node := &fleet.Nodes[random.IntN(len(fleet.Nodes))]
	peer := fleet.Nodes[random.IntN(len(fleet.Nodes))].Name
	mesh := node.Mesh
	if mesh == nil {
		return
	}
	switch random.IntN(9) {
	case 0:
		delete(mesh.Reached, peer)
	case 1:
		delete(mesh.Reached, peer)
		mesh.Failed = append(mesh.Failed, facts.Path{Peer: peer, Outcome: facts.PathDropped})
	case 2:
		mesh.Error = "in use"
	case 3:
		node.Mesh = nil
	case 4:
		fleettest.SetCard(node, random.IntN(4), fmt.Sprintf("eth%d", random.IntN(12)), fmt.Sprintf("192.168.7.%d/24", random.IntN(9)+1))
	case 5:
		fleettest.Rename(node, fmt.Sprintf("eth%d", random.IntN(12)))
	case 6:
		prefixes := &node.Net.Interfaces[1].Addresses
		*prefixes = append([]string{"192.168.9.1/24"}, *prefixes...)
	case 7:
		node.Reached = false
	case 8: // the ranks use another interface, and the addresses that lead to the peers are tested too
		for i := range fleet.Nodes {
			if each := &fleet.Nodes[i]; each.Mesh != nil && each.PeerMesh == nil {
				each.PeerMesh, each.Mesh = each.Mesh, &facts.Mesh{Interface: "br-1", Address: "172.18.0.1", Error: "held by all"}
			}
		}
	}
}

// TestAdviceIsNoCommand checks that a value that a shell would interpret is refused.
func TestAdviceIsNoCommand(t *testing.T) {
	fleet := fleettest.Healthy(2)
	for i := range fleet.Nodes {
		fleettest.Rename(&fleet.Nodes[i], "$(id>&2)")
	}
	advice := Advise(checks.View{All: fleet.Nodes, Launch: fleet.Launch, Policy: checks.DefaultPolicy()})
	if got := adviceOf(advice); len(got) > 0 {
		t.Errorf("advised: %q", got)
	}
	if len(advice.Refused) != 2 || !strings.Contains(advice.Refused[0].Why, "ip link set dev OLD name NEW") {
		t.Errorf("refused: %+v", advice.Refused)
	}
}
