// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/facts"
)

var Rendezvous = checks.Check{
	ID:        "rendezvous",
	Severity:  checks.Error,
	Needs:     []facts.Section{facts.SectionRendezvous},
	DependsOn: []string{"host-names", "master-address", "master-port-free"},
	Run:       judgeRendezvous,
}

func judgeRendezvous(view checks.View) []checks.Finding {
	findings := newMeeting(view, proof.RendezvousOf).judge()
	if findings == nil {
		findings = newMeeting(view, func(node *facts.Node) *facts.Rendezvous { return node.Rendezvous.Next }).judge()
	}
	if len(findings) == 1 && findings[0].Verdict == checks.Skip {
		return findings
	}
	return append(findings, ranksThere(view)...)
}

// ranksThere warns about ranks that connect to the endpoint during the test. They belong to a
// launch that waits for its node 0, or that lost it. Ranks of torch 2.5 and newer keep connecting
// until they time out, and would join this launch.
func ranksThere(view checks.View) (findings []checks.Finding) {
	for _, server := range view.Nodes {
		seen := server.Rendezvous
		if len(seen.Ranks) == 0 {
			continue
		}
		var nodes []string
		for i := range view.All {
			if node := &view.All[i]; node.Net != nil && names.LeadsTo(seen.Ranks, node) {
				nodes = append(nodes, node.Name)
			}
		}
		callers := fix.On("pgrep -af 'torchrun|torch.distributed|deepspeed'")
		if len(nodes) == 0 {
			nodes, callers = []string{server.Name}, callers.At(seen.Ranks[0])
		}
		f := checks.Finding{
			Verdict: checks.Warn, Nodes: nodes,
			Summary:  fmt.Sprintf("ranks of another launch call %s and may join this launch", seen.Endpoint),
			Got:      "calls of torch ranks from " + strings.Join(seen.Ranks, ", "),
			Want:     "no connections to the port before this launch",
			Remedy:   []fix.Command{callers.As(fix.Look)},
			WouldSee: "Timed out initializing process group in store based barrier on rank 0, for key: … (world_size=…, num_workers_joined=…), with more joined than there are",
		}
		if server.Net != nil {
			m := masterPlace{view, server, view.Launch.Endpoint(server)}
			f.Remedy = append(f.Remedy, m.atPort(freePort(server.Net, m.Port)))
		}
		findings = append(findings, f)
	}
	return findings
}

// meeting is one tested rendezvous with its results.
type meeting struct {
	view       checks.View
	part       func(*facts.Node) *facts.Rendezvous
	nodes      []*facts.Node // nodes that took part
	server     *facts.Node   // the node that serves the store, nil if none or several do
	servers    []*facts.Node
	host, port string
	// elsewhere lists the addresses to which the endpoint leads most nodes. It is nil if the server
	// has these addresses.
	elsewhere []string
}

func newMeeting(view checks.View, part func(*facts.Node) *facts.Rendezvous) meeting {
	g := meeting{view: view, part: part}
	for _, node := range view.Nodes {
		seen := part(node)
		if seen == nil {
			continue
		}
		g.nodes = append(g.nodes, node)
		g.host, g.port = names.SplitEndpoint(seen.Endpoint)
		if seen.Serves {
			g.servers = append(g.servers, node)
		}
	}
	if len(g.servers) == 1 {
		g.server = g.servers[0]
	}
	return g
}

func (g meeting) endpoint() string { return g.part(g.nodes[0]).Endpoint }

// isFirst reports whether this is the rendezvous at the endpoint that preflight predicts for the
// launch.
func (g meeting) isFirst() bool { return g.part(g.nodes[0]) == g.nodes[0].Rendezvous }

// judge returns findings for the step that failed, or nil if all nodes met.
func (g meeting) judge() []checks.Finding {
	failed := compare.Without(g.nodes, func(n *facts.Node) bool { return g.part(n).Failed == "" })
	if len(failed) == 0 {
		return nil
	}
	if reason := g.explanation(); reason != "" {
		return checks.Skipped("not all nodes met at " + g.endpoint() + ": see " + reason)
	}
	switch {
	case len(g.servers) == 0 && len(g.nodes) < len(g.view.All):
		return g.tooFew() // the server took no part, and its own unknown or failure says why
	case g.server == nil:
		return g.noOneServer()
	case g.part(g.server).Outcome == facts.PathTaken:
		return []checks.Finding{g.taken()}
	case g.part(g.server).Failed == facts.HopServe:
		return g.unserved()
	}
	if place := names.MostlyLedTo(g.nodes, func(n *facts.Node) []string { return g.part(n).Addresses }); !names.LeadsTo(place, g.server) {
		g.elsewhere = place
	}
	stuck := compare.Without(failed, func(n *facts.Node) bool { return g.part(n).Failed == facts.HopWait })
	if len(stuck) == 0 {
		return g.unmet(failed)
	}
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
		return checks.Skipped("not all nodes met at " + g.endpoint() + ": see " + strings.Join(slices.Compact(explained), ", "))
	}
	if why, is := names.UnknownTo(g.nodes, g.host); is && g.isFirst() {
		_, better := masterPlace{g.view, g.server, g.view.Launch.Endpoint(g.server)}.remedy()
		return []checks.Finding{unknownName(g.view, g.host, g.port, why, better)}
	}
	findings := g.stopped(left[facts.HopResolve])
	findings = append(findings, g.unconnected(left[facts.HopConnect])...)
	return append(findings, g.stopped(append(left[facts.HopValidate], left[facts.HopJoin]...))...)
}

// explanation returns the check that explains why the whole rendezvous failed, or "" for none.
func (g meeting) explanation() string {
	first, _ := names.NodeZero(g.view)
	switch {
	case !g.isFirst():
	case first != nil && isNoise(g.view, first) && !g.view.Policy.SwitchesOff("ssh-shell"):
		return "ssh-shell"
	case g.isNoPort() && !g.view.Policy.SwitchesOff("launcher-args"):
		return "launcher-args"
	case len(g.view.Failing("master-address")) > 0, g.isUnknownName() && g.server != nil && !g.view.Policy.SwitchesOff("master-address"):
		return "master-address"
	case len(g.servers) == 0 && len(g.view.Failing("host-names")) > 0:
		return "host-names"
	case g.server != nil && g.part(g.server).Failed == facts.HopServe && len(g.view.Failing("master-port-free")) > 0:
		return "master-port-free"
	}
	return ""
}

// isUnknownName reports whether no node resolves the name of the endpoint.
func (g meeting) isUnknownName() bool {
	_, is := names.UnknownTo(g.nodes, g.host)
	return is
}

// isNoPort reports whether the port of the endpoint is a number outside the range of ports.
func (g meeting) isNoPort() bool {
	port, err := strconv.Atoi(g.port)
	return err == nil && (port < 0 || port > 65535)
}

// explains returns the check that explains why a node failed, or "" for none.
func (g meeting) explains(node *facts.Node) string {
	seen := g.part(node)
	switch {
	case (seen.Failed == facts.HopResolve || g.isWrongAddress(node)) && g.view.Failing("host-names")[node.Name]:
		return "host-names"
	case misplaced(g.view)[node.Name].hasTwin(): // packets to the node reach the other machine
		return "nic-choice"
	case seen.Failed == facts.HopConnect && g.failsAlike(node), g.meshBlames(node):
		return "node-mesh"
	}
	return ""
}

// failsAlike reports whether the node's connection to the store ended in the same way as its
// connections to the server in the mesh test. The port is then not the cause.
func (g meeting) failsAlike(node *facts.Node) bool {
	if g.view.Policy.SwitchesOff("node-mesh") {
		return false
	}
	elsewhere := misplaced(g.view)[g.server.Name].explainedBy != ""
	for _, mesh := range []*facts.Mesh{node.Mesh, node.PeerMesh} {
		if mesh == node.Mesh && elsewhere {
			continue // node-mesh does not report connections to such an address
		}
		if proof.HasFailed(mesh, g.server.Name, func(path facts.Path) bool { return path.Outcome == g.part(node).Outcome }) {
			return true
		}
	}
	return false
}

// meshBlames reports whether node-mesh blames the rule that also takes the node's call to the store.
func (g meeting) meshBlames(node *facts.Node) bool {
	found := g.culprit(node)
	return found != nil && !g.view.Policy.SwitchesOff("node-mesh") && proof.HasFailed(node.Mesh, g.server.Name, func(path facts.Path) bool {
		of := culpritOf(node, g.server, path.To, path.Port, path.Outcome)
		return of != nil && of.node == found.node && slices.Equal(of.rule, found.rule)
	})
}

// isWrongAddress reports whether a name led the node to a wrong address. The server does not have
// that address, and most nodes do not use it.
func (g meeting) isWrongAddress(node *facts.Node) bool {
	addresses := g.part(node).Addresses
	if _, err := netip.ParseAddr(g.host); err == nil || len(addresses) == 0 || g.server == nil || g.server.Net == nil || node == g.server {
		return false
	}
	return !names.LeadsTo(addresses, g.server) && !names.Overlap(addresses, g.elsewhere)
}
