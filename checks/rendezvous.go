package checks

import (
	"slices"
	"strings"

	"preflight/facts"
)

var rendezvous = Check{
	ID:        "rendezvous",
	Title:     "all nodes meet in one store at the address and port that the ranks will be given",
	Severity:  Error,
	Needs:     []facts.Section{facts.SectionRendezvous},
	DependsOn: []string{"host-names", "master-address", "master-port-free"},
	Doc: "A real rendezvous was tried: whoever will serve the store did, on the predicted port, and every node looked the endpoint up, connected, spoke " +
		"torch's protocol, was counted and waited for all others. The hop where it ended is named, for the fewest nodes that explain it: what nobody gets " +
		"past is the server's, what few do not is theirs. In torchrun's c10d mode the second meeting, at the full name of group rank 0 and a new port, " +
		"is judged alike. What another check explains is left to it.",
	WouldSee: "The client socket has timed out after … while trying to connect to (HOST, PORT), after 10 minutes or more",
	Run:      judgeRendezvous,
}

func judgeRendezvous(view View) []Finding {
	findings := newGathering(view, rendezvousOf).judge()
	if findings != nil {
		return findings
	}
	return newGathering(view, func(node *facts.Node) *facts.Rendezvous { return node.Rendezvous.Next }).judge()
}

// gathering is one meeting that was tried, and what came of it.
type gathering struct {
	view       View
	part       func(*facts.Node) *facts.Rendezvous
	nodes      []*facts.Node // those that took part
	server     *facts.Node   // who serves, nil when nobody or several do
	servers    []*facts.Node
	host, port string
	// elsewhere is where the endpoint leads most nodes, when that is no address
	// of the server.
	elsewhere []string
}

func newGathering(view View, part func(*facts.Node) *facts.Rendezvous) gathering {
	g := gathering{view: view, part: part}
	for _, node := range view.Nodes {
		seen := part(node)
		if seen == nil {
			continue
		}
		g.nodes = append(g.nodes, node)
		g.host, g.port = splitEndpoint(seen.Endpoint)
		if seen.Serves {
			g.servers = append(g.servers, node)
		}
	}
	if len(g.servers) == 1 {
		g.server = g.servers[0]
	}
	return g
}

func (g gathering) endpoint() string { return g.part(g.nodes[0]).Endpoint }

// address is what a node calls when it calls the endpoint.
func (g gathering) address(node *facts.Node) string {
	for _, address := range g.part(node).Addresses {
		return address
	}
	return g.host
}

func (g gathering) addresses(node *facts.Node) []string { return g.part(node).Addresses }

// isFirst is whether this is the meeting at the predicted endpoint.
func (g gathering) isFirst() bool { return g.part(g.nodes[0]) == g.nodes[0].Rendezvous }

// judge names the hop that failed, nothing when all nodes met.
func (g gathering) judge() []Finding {
	failed := g.failed()
	if len(failed) == 0 {
		return nil
	}
	if reason := g.said(); reason != "" {
		return skip("not all nodes met at " + g.endpoint() + ": see " + reason)
	}
	switch {
	case len(g.servers) == 0 && len(g.nodes) < len(g.view.All):
		return nil // who serves took no part, and its own unknown says why
	case g.server == nil:
		return g.noOneServer()
	}
	if g.part(g.server).Failed == facts.HopServe {
		return g.unserved()
	}
	if place := mostlyLedTo(g.nodes, g.addresses); !leadsTo(place, g.server) {
		g.elsewhere = place
	}
	stuck := slices.DeleteFunc(slices.Clone(failed), func(n *facts.Node) bool { return g.part(n).Failed == facts.HopWait })
	if len(stuck) == 0 {
		return g.unmet(failed)
	}
	var findings []Finding
	var explained []string
	left := map[facts.Hop][]*facts.Node{}
	for _, node := range stuck {
		if check := g.explains(node); check != "" {
			explained = append(explained, check)
			continue
		}
		hop := g.part(node).Failed
		left[hop] = append(left[hop], node)
	}
	if len(left) == 0 {
		slices.Sort(explained)
		return skip("not all nodes met at " + g.endpoint() + ": see " + strings.Join(slices.Compact(explained), ", "))
	}
	findings = append(findings, g.unresolved(left[facts.HopResolve])...)
	findings = append(findings, g.unconnected(left[facts.HopConnect])...)
	findings = append(findings, g.misled(left[facts.HopValidate])...)
	return append(findings, g.uncounted(left[facts.HopJoin])...)
}

// failed is the nodes that did not see the whole world.
func (g gathering) failed() []*facts.Node {
	return slices.DeleteFunc(slices.Clone(g.nodes), func(n *facts.Node) bool { return g.part(n).Failed == "" })
}
