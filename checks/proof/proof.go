// SPDX-License-Identifier: Apache-2.0

// Package proof evaluates the tests between nodes. It counts the connections that worked, and finds
// the smallest set of nodes that explains the failures.
package proof

import (
	"fmt"
	"slices"

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
