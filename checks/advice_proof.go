package checks

import (
	"fmt"

	"preflight/facts"
)

// FullMesh is up to how many nodes only a mesh in which everybody called
// everybody proves anything; the drill takes samples of larger fleets.
const FullMesh = 128

// rankMesh and peerMesh are the two lanes of the mesh drill.
func rankMesh(node *facts.Node) *facts.Mesh { return node.Mesh }
func peerMesh(node *facts.Node) *facts.Mesh { return node.PeerMesh }

// meshProof says how many pairs answered on one lane, and whether that proves
// it: every node of the fleet listened there, no call failed, and everybody was
// called by everybody or, in a large fleet, by somebody, all calling as many.
func meshProof(nodes []facts.Node, lane func(*facts.Node) *facts.Mesh) (pairs string, proven bool) {
	called := map[string]bool{}
	answered, all := 0, len(nodes)*(len(nodes)-1)
	for i := range nodes {
		seen := lane(&nodes[i])
		if seen == nil || seen.Error != "" || len(seen.Failed) > 0 {
			return "", false
		}
		for name := range seen.Reached {
			if name != nodes[i].Name {
				called[name] = true
				answered++
			}
		}
		if len(seen.Reached) != len(lane(&nodes[0]).Reached) {
			return "", false
		}
	}
	for i := range nodes {
		_, itself := lane(&nodes[i]).Reached[nodes[i].Name]
		if !itself || !called[nodes[i].Name] {
			return "", false
		}
	}
	switch {
	case len(nodes) < 2 || answered < all && len(nodes) <= FullMesh:
		return "", false
	case answered < all:
		return fmt.Sprintf("all %d sampled pairs of %d answered", answered, all), true
	}
	return fmt.Sprintf("%d of %d pairs answered", answered, all), true
}

// rendezvousOf and peerRendezvous are the two endpoints of the rendezvous drill.
func rendezvousOf(node *facts.Node) *facts.Rendezvous   { return node.Rendezvous }
func peerRendezvous(node *facts.Node) *facts.Rendezvous { return node.PeerRendezvous }

// gathered says whether a rendezvous was tried on every node of the fleet, and
// whether it brought all of them together.
func gathered(nodes []facts.Node, drill func(*facts.Node) *facts.Rendezvous) (tried, together bool) {
	together = true
	for i := range nodes {
		seen := drill(&nodes[i])
		if seen == nil {
			return false, false
		}
		failedNext := seen.Next != nil && seen.Next.Failed != ""
		together = together && seen.Failed == "" && seen.Complete > 0 && !failedNext
	}
	return len(nodes) > 0, together
}
