package checks

import (
	"net/netip"
	"slices"

	"preflight/facts"
)

// said is the check that explains why the meeting as a whole did not come
// about, "" when none does.
func (g gathering) said() string {
	switch {
	case !g.isFirst():
	case len(failing(g.view, masterAddress)) > 0:
		return masterAddress.ID
	case len(g.servers) == 0 && len(failing(g.view, hostNames)) > 0:
		return hostNames.ID
	case g.server != nil && g.part(g.server).Failed == facts.HopServe && len(failing(g.view, masterPortFree)) > 0:
		return masterPortFree.ID
	}
	return ""
}

// explains is the check that says why one node did not get further, "" when
// none does.
func (g gathering) explains(node *facts.Node) string {
	seen := g.part(node)
	switch {
	case (seen.Failed == facts.HopResolve || g.isWrongAddress(node)) && failing(g.view, hostNames)[node.Name]:
		return hostNames.ID
	case seen.Failed == facts.HopConnect && g.failsAlike(node):
		return "node-mesh"
	}
	return ""
}

// failing is the nodes that a check fails, for checks that explain another.
// Nothing where the check is switched off, for then nobody says it.
func failing(view View, check Check) map[string]bool {
	nodes := map[string]bool{}
	if view.Policy.SwitchesOff(check.ID) {
		return nodes
	}
	view.Nodes = nil
	for i := range view.All {
		if missing(check, &view.All[i]) == "" {
			view.Nodes = append(view.Nodes, &view.All[i])
		}
	}
	if len(view.Nodes) == 0 {
		return nodes
	}
	for _, f := range check.Run(view) {
		complete(&f, check)
		for _, node := range f.Nodes {
			nodes[node] = nodes[node] || f.Verdict == Fail
		}
	}
	for node, failed := range nodes {
		if !failed {
			delete(nodes, node)
		}
	}
	return nodes
}

// failsAlike is whether the node's calls to the server in the mesh drill ended
// as its call to the store did: a cause that is not of the port.
func (g gathering) failsAlike(node *facts.Node) bool {
	if g.view.Policy.SwitchesOff("node-mesh") {
		return false
	}
	elsewhere := misplaced(g.view)[g.server.Name] != ""
	for _, lane := range []*facts.Mesh{node.Mesh, node.PeerMesh} {
		if lane == nil || lane == node.Mesh && elsewhere {
			continue // node-mesh says nothing of calls to such an address
		}
		if slices.ContainsFunc(lane.Failed, func(p facts.Path) bool {
			return p.Peer == g.server.Name && p.Outcome == g.part(node).Outcome
		}) {
			return true
		}
	}
	return false
}

// isWrongAddress is whether a name led the node to no address of the server.
func (g gathering) isWrongAddress(node *facts.Node) bool {
	addresses := g.part(node).Addresses
	if _, err := netip.ParseAddr(g.host); err == nil || len(addresses) == 0 || g.server == nil || g.server.Net == nil || node == g.server {
		return false
	}
	right := addressesOf(g.server)
	if reached, err := netip.ParseAddr(g.server.Address); err == nil {
		right = append(right, reached)
	}
	return !slices.ContainsFunc(addresses, isOneOf(right))
}
