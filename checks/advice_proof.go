package checks

import (
	"fmt"

	"preflight/facts"
)

// rankMesh and peerMesh are the two parts of the mesh drill: on the addresses
// that the ranks will use, and on those that lead to the peers.
func rankMesh(node *facts.Node) *facts.Mesh { return node.Mesh }
func peerMesh(node *facts.Node) *facts.Mesh { return node.PeerMesh }

// meshProof says how many pairs answered in one part, and whether that proves
// that its addresses will do: every node listened there, no call failed, and everybody was
// called by everybody or, in a large fleet, by somebody, all calling as many.
func meshProof(nodes []*facts.Node, mesh func(*facts.Node) *facts.Mesh) (pairs string, proven bool) {
	called := map[string]bool{}
	answered, all := 0, len(nodes)*(len(nodes)-1)
	for _, node := range nodes {
		seen := mesh(node)
		if seen == nil || seen.Error != "" || len(seen.Failed) > 0 {
			return "", false
		}
		for name := range seen.Reached {
			if name != node.Name {
				called[name] = true
				answered++
			}
		}
		if len(seen.Reached) != len(mesh(nodes[0]).Reached) {
			return "", false
		}
	}
	for _, node := range nodes {
		_, itself := mesh(node).Reached[node.Name]
		if !itself || !called[node.Name] {
			return "", false
		}
	}
	switch {
	case len(nodes) < 2 || answered < all && len(nodes) <= facts.FullMesh:
		return "", false
	case answered < all:
		return fmt.Sprintf("all %d sampled pairs of %d answered", answered, all), true
	}
	return fmt.Sprintf("%d of %d pairs answered", answered, all), true
}

// rendezvousOf and peerRendezvous are the two endpoints of the rendezvous drill.
func rendezvousOf(node *facts.Node) *facts.Rendezvous   { return node.Rendezvous }
func peerRendezvous(node *facts.Node) *facts.Rendezvous { return node.PeerRendezvous }

// attendance is how many nodes took part in a rendezvous.
type attendance struct {
	all     int // nodes of the fleet
	took    int // those it was tried on
	counted int // those that the store counted
	met     int // those that saw everybody
}

func attended(nodes []facts.Node, drill func(*facts.Node) *facts.Rendezvous) attendance {
	a := attendance{all: len(nodes)}
	for i := range nodes {
		seen := drill(&nodes[i])
		if seen == nil {
			continue
		}
		a.took++
		if isCounted(seen) {
			a.counted++
		}
		if failedNext := seen.Next != nil && seen.Next.Failed != ""; seen.Failed == "" && seen.Complete > 0 && !failedNext {
			a.met++
		}
	}
	return a
}

// together is whether all nodes met that it was tried on.
func (a attendance) together() bool { return a.took > 1 && a.met == a.took }

// proven is whether the whole fleet did.
func (a attendance) proven() bool { return a.together() && a.took == a.all }
