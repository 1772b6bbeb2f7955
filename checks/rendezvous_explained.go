package checks

import (
	"net/netip"
	"slices"

	"preflight/facts"
)

// said is the check that explains why the meeting as a whole did not come
// about, "" when none does.
func (g gathering) said() string {
	first, _ := nodeZero(g.view)
	switch {
	case !g.isFirst():
	case first != nil && isNoise(g.view, first) && !g.view.Policy.SwitchesOff("ssh-shell"):
		return "ssh-shell"
	case len(g.view.Failing("master-address")) > 0:
		return "master-address"
	case len(g.servers) == 0 && len(g.view.Failing("host-names")) > 0:
		return "host-names"
	case g.server != nil && g.part(g.server).Failed == facts.HopServe && len(g.view.Failing("master-port-free")) > 0:
		return "master-port-free"
	}
	return ""
}

// explains is the check that says why one node did not get further, "" when
// none does.
func (g gathering) explains(node *facts.Node) string {
	seen := g.part(node)
	switch {
	case (seen.Failed == facts.HopResolve || g.isWrongAddress(node)) && g.view.Failing("host-names")[node.Name]:
		return "host-names"
	case seen.Failed == facts.HopConnect && g.failsAlike(node):
		return "node-mesh"
	}
	return ""
}

// failsAlike is whether the node's calls to the server in the mesh drill ended
// as its call to the store did: a cause that is not of the port.
func (g gathering) failsAlike(node *facts.Node) bool {
	if g.view.Policy.SwitchesOff("node-mesh") {
		return false
	}
	elsewhere := misplaced(g.view)[g.server.Name] != ""
	for _, mesh := range []*facts.Mesh{node.Mesh, node.PeerMesh} {
		if mesh == nil || mesh == node.Mesh && elsewhere {
			continue // node-mesh says nothing of calls to such an address
		}
		if slices.ContainsFunc(mesh.Failed, func(p facts.Path) bool {
			return p.Peer == g.server.Name && p.Outcome == g.part(node).Outcome
		}) {
			return true
		}
	}
	return false
}

// isWrongAddress is whether a name led the node to no address of the server,
// and not where it leads most nodes.
func (g gathering) isWrongAddress(node *facts.Node) bool {
	addresses := g.part(node).Addresses
	if _, err := netip.ParseAddr(g.host); err == nil || len(addresses) == 0 || g.server == nil || g.server.Net == nil || node == g.server {
		return false
	}
	return !leadsTo(addresses, g.server) && !overlap(addresses, g.elsewhere)
}
