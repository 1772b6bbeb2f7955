// SPDX-License-Identifier: Apache-2.0

// Package proof evaluates the tests between nodes. It counts the connections that worked, and finds
// the smallest set of nodes that explains the failures.
package proof

import (
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"

	"preflight/facts"
)

// RankMesh and PeerMesh return the two parts of the mesh test. RankMesh is the part on the
// addresses that the ranks will use. PeerMesh is the part on the addresses that lead to the peers.
func RankMesh(node *facts.Node) *facts.Mesh { return node.Mesh }

func PeerMesh(node *facts.Node) *facts.Mesh { return node.PeerMesh }

// MeshProof returns the number of pairs that answered in one part of the mesh test. It also returns
// whether this number proves that the addresses of that part work. Every node must have listened,
// and no connection may have failed. All nodes must have connected to every node or, in a large
// fleet, to the same number of nodes.
func MeshProof(nodes []*facts.Node, mesh func(*facts.Node) *facts.Mesh) (pairs string, proven bool) {
	answered, all := answeredPairs(nodes, mesh), len(nodes)*(len(nodes)-1)
	isOdd := func(node *facts.Node) bool {
		_, itself := mesh(node).Reached[node.Name]
		return !itself || len(mesh(node).Reached) != len(mesh(nodes[0]).Reached)
	}
	switch {
	case answered == 0 || answered < all && len(nodes) <= facts.FullMesh || slices.ContainsFunc(nodes, isOdd):
		return "", false
	case answered < all:
		return fmt.Sprintf("all %d sampled pairs of %d answered", answered, all), true
	}
	return fmt.Sprintf("%d of %d pairs answered", answered, all), true
}

// answeredPairs returns the number of pairs of different nodes that answered in one part of the
// mesh test. It returns 0 if a node did not listen, if a connection failed, or if no other node
// connected to a node.
func answeredPairs(nodes []*facts.Node, mesh func(*facts.Node) *facts.Mesh) (pairs int) {
	called := map[string]bool{}
	for _, node := range nodes {
		seen := mesh(node)
		if seen == nil || seen.Error != "" || len(seen.Failed) > 0 {
			return 0
		}
		for peer := range seen.Reached {
			if peer != node.Name {
				called[peer] = true
				pairs++
			}
		}
	}
	if slices.ContainsFunc(nodes, func(n *facts.Node) bool { return !called[n.Name] }) {
		return 0
	}
	return pairs
}

// RendezvousOf and PeerRendezvous return a node's results at the two endpoints of the rendezvous
// test.
func RendezvousOf(node *facts.Node) *facts.Rendezvous { return node.Rendezvous }

func PeerRendezvous(node *facts.Node) *facts.Rendezvous { return node.PeerRendezvous }

// attendance counts the nodes that took part in a rendezvous.
type attendance struct {
	All     int // all nodes of the fleet
	Took    int // nodes that tried to join
	Counted int // nodes that the rendezvous store counted
	Met     int // nodes that saw all other nodes
}

func Attended(nodes []facts.Node, drill func(*facts.Node) *facts.Rendezvous) attendance {
	a := attendance{All: len(nodes)}
	for i := range nodes {
		seen := drill(&nodes[i])
		if seen == nil {
			continue
		}
		a.Took++
		if IsCounted(seen) {
			a.Counted++
		}
		if failedNext := seen.Next != nil && seen.Next.Failed != ""; seen.Failed == "" && seen.Complete > 0 && !failedNext {
			a.Met++
		}
	}
	return a
}

// Together reports whether all nodes that tried to join the rendezvous saw each other.
func (a attendance) Together() bool { return a.Took > 1 && a.Met == a.Took }

// Proven reports whether all nodes of the fleet joined the rendezvous and saw each other.
func (a attendance) Proven() bool { return a.Together() && a.Took == a.All }

// Common returns the value that wanted returns for every node, or "" if the values differ.
func Common(nodes []*facts.Node, wanted func(*facts.Node) string) string {
	if len(nodes) == 0 {
		return ""
	}
	first := wanted(nodes[0])
	if slices.ContainsFunc(nodes, func(n *facts.Node) bool { return wanted(n) != first }) {
		return ""
	}
	return first
}

// IsCounted reports whether a node joined the rendezvous, even if it did not see all other nodes.
func IsCounted(seen *facts.Rendezvous) bool {
	return seen != nil && (seen.Failed == "" || seen.Failed == facts.HopWait && seen.Joined > 0)
}

func LosesPackets(path facts.Path) bool { return path.Outcome == facts.PathBlackhole }

// HasFailed reports whether a connection to a peer failed and is returns true for that connection.
// mesh may be nil.
func HasFailed(mesh *facts.Mesh, peer string, is func(facts.Path) bool) bool {
	return mesh != nil && slices.ContainsFunc(mesh.Failed, func(path facts.Path) bool { return path.Peer == peer && is(path) })
}

// Missed returns the probability that a sampled mesh (facts.FullMesh) contains no connection from
// any of a nodes to any of b other nodes. With this probability, a run does not notice that the a
// nodes cannot reach the b nodes. Each of n nodes connects to the next node in k =
// facts.SampledPeers cycles through all nodes: the order of the hostfile and k-1 random orders.
//
// Let A be the a nodes and B the b nodes. In one random cycle, the probability that no node of A
// comes directly before a node of B follows from building the cycle: put the n-b nodes outside B in
// a circle, then insert the nodes of B one after the other. The first has n-b places to choose
// from, the next n-b+1, and so on. Of these, a places come directly after a node of A. So the
// probability is
//
//	(1 - a/(n-b)) · (1 - a/(n-b+1)) · … · (1 - a/(n-1))
//
// For k-1 cycles, the probability is this product to the power of k-1. The hostfile's own order is
// left out, because its effect depends on where the nodes are in it. Special cases are
//
//	0                 for a + b = n: a group that cannot reach the rest, even a single node, is
//	                  found in every cycle, and so is a group that the rest cannot reach
//	1 - (k-1)/(n-1)   about, for a = b = 1: one pair, in one direction
//	exp(-(k-1)ab/n)   about, for groups much smaller than the fleet: two racks of 32 among 10,000
//	                  nodes are missed in 54 of 100 runs, of 64 in 9, of 100 in 1 of 400
//
// No two nodes are neighbours in two cycles, so n·k of all n(n-1) directed pairs are tested. One
// pair drawn at random is found with probability [PairFound], and at least one of m such faults
// with about 1-(1-PairFound)^m. If neither direction works, either connection shows it, which
// doubles the probability. Each run draws new orders. If one run misses a fault with probability p,
// r runs miss it with p^r.
func Missed(n, a, b int) float64 {
	if a+b >= n {
		return 0
	}
	cycle := 0.0
	for i := range b {
		cycle += math.Log1p(-float64(a) / float64(n-b+i))
	}
	return math.Exp(cycle * (facts.SampledPeers - 1))
}

// PairFound returns the probability that a sampled mesh of n nodes connects a given directed pair
// of nodes.
func PairFound(n int) float64 { return facts.SampledPeers / float64(n-1) }

// rack is the number of nodes in the example of [Power]. It is about the number of nodes on one
// leaf switch.
const rack = 32

// Power describes which faults a sampled mesh of n nodes finds, and how often.
func Power(n int) string {
	return fmt.Sprintf("every node connected to %d of %s others. This always finds a node or a group that is cut off, in either direction. "+
		"It finds %s of single pairs that cannot reach each other, %s of pairs that fail in one direction, and %s of cases in which %d nodes cannot reach %d others. "+
		"Each run uses other pairs",
		facts.SampledPeers, humanize.Comma(int64(n-1)), percent(2*PairFound(n)), percent(PairFound(n)), percent(1-Missed(n, rack, rack)), rack, rack)
}

// percent formats a probability as a percentage, but never as 100 %.
func percent(p float64) string {
	if p > 0.99 {
		return "more than 99 %"
	}
	return fmt.Sprintf("%.2g %%", 100*p)
}

// RailNamed returns the rail of a node with this name, or nil if the node has none.
func RailNamed(node *facts.Node, name string) *facts.Rail {
	if node.Rails == nil {
		return nil
	}
	at := slices.IndexFunc(node.Rails.Rails, func(r facts.Rail) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	return &node.Rails.Rails[at]
}

// RailNames returns the names of all rails, in the order of the nodes.
func RailNames(nodes []*facts.Node) (names []string) {
	seen := map[string]bool{}
	for _, node := range nodes {
		if node.Rails == nil {
			continue
		}
		for _, rail := range node.Rails.Rails {
			if !seen[rail.Name] {
				seen[rail.Name], names = true, append(names, rail.Name)
			}
		}
	}
	return names
}

// RailAnswered reports whether every node has the rail and all connections on it succeeded. There
// must be connections from every node to every node or, in a large fleet, to the same number of
// nodes.
func RailAnswered(nodes []*facts.Node, name string) bool {
	peers := len(nodes) - 1
	if len(nodes) > facts.RailCallers {
		peers = min(peers, facts.SampledPeers)
	}
	same := func(node *facts.Node) *facts.Mesh {
		rail := RailNamed(node, name)
		if rail == nil || len(rail.Same.Reached) < peers {
			return nil
		}
		return &rail.Same
	}
	return answeredPairs(nodes, same) > 0
}

// RailsAnswered returns the names of the rails for which RailAnswered is true.
func RailsAnswered(nodes []*facts.Node) (names []string) {
	for _, name := range RailNames(nodes) {
		if RailAnswered(nodes, name) {
			names = append(names, name)
		}
	}
	return names
}

// RailsApart reports whether no port of an adapter answers a port of another rail. Only an explicit
// error from the network or the link counts. If a connection gets no answer at all, perhaps only
// TCP is blocked: a machine with reverse path filtering (net.ipv4.conf.*.rp_filter) drops such
// packets, but adapters do not.
func RailsApart(nodes []*facts.Node) bool {
	explicit, tried := []facts.PathOutcome{facts.PathUnresolved, facts.PathUnroutable, facts.PathRejected, facts.PathRefused}, 0
	for _, node := range nodes {
		if node.Rails == nil {
			return false
		}
		for _, rail := range node.Rails.Rails {
			if rail.Across == nil {
				continue
			}
			isExplicit := func(path facts.Path) bool { return slices.Contains(explicit, path.Outcome) }
			if tried += len(rail.Across.Failed); len(rail.Across.Reached) > 0 || slices.ContainsFunc(rail.Across.Failed, func(p facts.Path) bool { return !isExplicit(p) }) {
				return false
			}
		}
	}
	return tried > 0
}
