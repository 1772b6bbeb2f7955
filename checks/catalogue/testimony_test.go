// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/network"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/testhosts/fleettest"
)

// say makes a node report a false result of its connection to a peer.
func say(fleet fleettest.Fleet, liar, peer int, path facts.Path) {
	from, to := &fleet.Nodes[liar], &fleet.Nodes[peer]
	if _, called := from.Mesh.Reached[to.Name]; !called || from == to {
		return
	}
	delete(from.Mesh.Reached, to.Name)
	path.Peer, path.To, path.Port, path.Seconds = to.Name, to.Address, cmp.Or(path.Port, 44111), 0.2
	from.Mesh.Failed = append(from.Mesh.Failed, path)
}

// ofEverybody makes a node report the same result for all its connections.
func ofEverybody(path facts.Path) func(fleettest.Fleet, int) {
	return func(fleet fleettest.Fleet, liar int) {
		for peer := range fleet.Nodes {
			say(fleet, liar, peer, path)
		}
	}
}

// lies holds false reports that one node of a healthy fleet may make about its peers.
var lies = map[string]func(fleettest.Fleet, int){
	"dropped":     ofEverybody(facts.Path{Outcome: facts.PathDropped}),
	"refused":     ofEverybody(facts.Path{Outcome: facts.PathRefused}),
	"rejected":    ofEverybody(facts.Path{Outcome: facts.PathRejected}),
	"reset":       ofEverybody(facts.Path{Outcome: facts.PathReset}),
	"silent":      ofEverybody(facts.Path{Outcome: facts.PathSilent}),
	"stranger":    ofEverybody(facts.Path{Outcome: facts.PathStranger}),
	"partly open": ofEverybody(facts.Path{Outcome: facts.PathDropped, Port: 58123, Open: []int{35007, 44111}}),
	"swallows":    ofEverybody(facts.Path{Outcome: facts.PathBlackhole, MSS: 8948, Stuck: "to"}),
	"swallowed":   ofEverybody(facts.Path{Outcome: facts.PathBlackhole, MSS: 8948, Stuck: "from"}),
	"other MACs":  ofEverybody(facts.Path{Outcome: facts.PathRefused, MAC: "02:66:66:66:66:66"}),
	"misdirected to one": func(fleet fleettest.Fleet, liar int) {
		answers := fleet.Nodes[(liar+1)%len(fleet.Nodes)].Name
		ofEverybody(facts.Path{Outcome: facts.PathMisdirected, Answered: answers})(fleet, liar)
	},
	"misdirected to itself": func(fleet fleettest.Fleet, liar int) {
		ofEverybody(facts.Path{Outcome: facts.PathMisdirected, Answered: fleet.Nodes[liar].Name})(fleet, liar)
	},
	"misdirected to the next": func(fleet fleettest.Fleet, liar int) {
		for peer := range fleet.Nodes {
			say(fleet, liar, peer, facts.Path{Outcome: facts.PathMisdirected, Answered: fleet.Nodes[(peer+1)%len(fleet.Nodes)].Name})
		}
	},
	"a MAC each": func(fleet fleettest.Fleet, liar int) {
		for peer := range fleet.Nodes {
			say(fleet, liar, peer, facts.Path{Outcome: facts.PathRefused, MAC: fmt.Sprintf("02:66:66:66:66:%02x", peer%256)})
		}
	},
	"the others' MACs": func(fleet fleettest.Fleet, liar int) {
		for peer := range fleet.Nodes {
			next := fleet.Nodes[(peer+2)%len(fleet.Nodes)]
			say(fleet, liar, peer, facts.Path{Outcome: facts.PathStranger, MAC: next.Net.Interfaces[1].MAC})
		}
	},
	"not where ranks listen": func(fleet fleettest.Fleet, liar int) {
		for i := range fleet.Nodes {
			node := &fleet.Nodes[i]
			reached := *node.Mesh
			reached.Reached = maps.Clone(reached.Reached)
			node.PeerMesh = &reached
			eth0, eth9 := node.Net.Interfaces[1], node.Net.Interfaces[1]
			eth0.Index = 3
			eth9.Name, eth9.Addresses = "eth9", []string{fmt.Sprintf("10.9.%d.%d/16", i/250, i%250+1)}
			node.Net.Interfaces = []facts.Interface{node.Net.Interfaces[0], eth9, eth0}
			node.Mesh.Interface, node.Mesh.Address = "eth9", fmt.Sprintf("10.9.%d.%d", i/250, i%250+1)
		}
		ofEverybody(facts.Path{Outcome: facts.PathDropped})(fleet, liar)
	},
	"holds all addresses": func(fleet fleettest.Fleet, liar int) {
		own := &fleet.Nodes[liar].Net.Interfaces[1].Addresses
		for _, node := range fleet.Nodes {
			if mine := node.Address + "/16"; !slices.Contains(*own, mine) {
				*own = append(*own, mine)
			}
		}
		for address := range launch.SharedAddresses(checks.View{All: fleet.Nodes}.Everywhere()) { // no node connects to an address that several nodes have
			for i := range fleet.Nodes {
				if node := &fleet.Nodes[i]; node.Address == address.String() {
					node.Mesh = &facts.Mesh{Interface: node.Mesh.Interface, Address: node.Address, Error: node.Address + " is held by 2 nodes"}
					for _, other := range fleet.Nodes {
						delete(other.Mesh.Reached, node.Name)
					}
				}
			}
		}
	},
}

// TestOneNodesTestimony makes one node of a healthy fleet report false results about all other
// nodes, in fleets of all sizes. The node that contradicts the majority must be named and must not
// count as good. All other nodes must be good. If there are only two nodes, neither is good.
func TestOneNodesTestimony(t *testing.T) {
	t.Parallel()
	for name, lie := range lies {
		for _, n := range []int{2, 3, 4, 8, 64, 300} {
			for _, liar := range []int{0, n - 1} {
				if n > 8 && liar == 0 && name != "holds all addresses" {
					continue // the results are the same, and fleets of this size take long
				}
				t.Run(fmt.Sprintf("%s/w%d of %d", name, liar+1, n), func(t *testing.T) {
					fleet := fleettest.Healthy(n)
					lie(fleet, liar)
					report := engine.Evaluate(Catalogue, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
					report.Conclude(false)
					want := []string{fleet.Nodes[liar].Name}
					if n == 2 {
						want = []string{"w1", "w2"}
					}
					got := PartitionOf(report)
					if diff := gocmp.Diff(want, got.Bad); diff != "" || len(got.Good) != n-len(want) {
						t.Errorf("bad (-want +got):\n%s\ngood %s\n%s", diff, hostfile.Fold(got.Good), fleettest.Spelled(report.Findings))
					}
				})
			}
		}
	}
}

// TestOneLie makes a node report a false result about one peer. Exactly these two nodes must be
// named, whatever other node the report mentions.
func TestOneLie(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(lies)) {
		for _, n := range []int{2, 3, 4, 8, 64} {
			fleet, whole := fleettest.Healthy(n), fleettest.Healthy(n)
			lies[name](whole, 1)
			fleet.Nodes[1].Mesh.Failed = slices.DeleteFunc(whole.Nodes[1].Mesh.Failed, func(p facts.Path) bool { return p.Peer != "w1" })
			if len(fleet.Nodes[1].Mesh.Failed) == 0 {
				continue // this false report is not about a connection to w1
			}
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				delete(fleet.Nodes[1].Mesh.Reached, "w1")
				report := engine.Evaluate([]checks.Check{network.NodeMesh, network.PathMTU}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
				report.Conclude(false)
				got := PartitionOf(report)
				if diff := gocmp.Diff([]string{"w1", "w2"}, got.Bad); diff != "" || len(got.Good) != n-2 {
					t.Errorf("bad (-want +got):\n%s\n%s", diff, fleettest.Spelled(report.Findings))
				}
			})
		}
	}
}
