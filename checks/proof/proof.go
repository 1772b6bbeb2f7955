// SPDX-License-Identifier: Apache-2.0

// Package proof says what this run has tried between nodes, how much of it worked, and which
// nodes the failures accuse.
//
// It refuses to accuse more nodes than explain what failed.
package proof

import (
	"fmt"
	"slices"

	"preflight/facts"
)

// RankMesh and PeerMesh are the two parts of the mesh drill: on the addresses
// that the ranks will use, and on those that lead to the peers.
func RankMesh(node *facts.Node) *facts.Mesh { return node.Mesh }

func PeerMesh(node *facts.Node) *facts.Mesh { return node.PeerMesh }

// MeshProof says how many pairs answered in one part, and whether that proves
// that its addresses will do: every node listened there, no call failed, and everybody was
// called by everybody or, in a large fleet, by somebody, all calling as many.
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

// answeredPairs returns how many pairs of different nodes answered in one part of the mesh drill; 0 where a node did
// not listen, a call failed, or no other node called a node.
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

// RendezvousOf and PeerRendezvous are the two endpoints of the rendezvous drill.
func RendezvousOf(node *facts.Node) *facts.Rendezvous { return node.Rendezvous }

func PeerRendezvous(node *facts.Node) *facts.Rendezvous { return node.PeerRendezvous }

// attendance is how many nodes took part in a rendezvous.
type attendance struct {
	All     int // nodes of the fleet
	Took    int // those it was tried on
	Counted int // those that the store counted
	Met     int // those that saw everybody
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

// Together is whether all nodes met that it was tried on.
func (a attendance) Together() bool { return a.Took > 1 && a.Met == a.Took }

// Proven is whether the whole fleet did.
func (a attendance) Proven() bool { return a.Together() && a.Took == a.All }

// Common is the one name that is wanted on every node, "" when there are
// several.
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

// IsCounted is whether a node joined, met it all others or not.
func IsCounted(seen *facts.Rendezvous) bool {
	return seen != nil && (seen.Failed == "" || seen.Failed == facts.HopWait && seen.Joined > 0)
}

func LosesPackets(path facts.Path) bool { return path.Outcome == facts.PathBlackhole }

// HasFailed is whether a call to a peer failed in some way in a part of the mesh drill,
// which may not have been looked at.
func HasFailed(mesh *facts.Mesh, peer string, is func(facts.Path) bool) bool {
	return mesh != nil && slices.ContainsFunc(mesh.Failed, func(path facts.Path) bool { return path.Peer == peer && is(path) })
}
