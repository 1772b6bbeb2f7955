// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

var NodeMesh = checks.Check{
	ID:        "node-mesh",
	Severity:  checks.Error,
	Needs:     []facts.Section{facts.SectionMesh},
	DependsOn: []string{"neighbour-table", "container-networks"},
	Run: func(view checks.View) []checks.Finding {
		m := newMeshCalls(view)
		findings := append(m.tooFewConnections(), m.rateLimits()...)
		found := proof.Suspects(m.names, m.calls)
		findings = slices.Concat(findings, m.absent(), m.noRoutes(), m.partlyOpen(), fewPorts(view), forgetful(view), m.ownAddresses(found))
		if len(m.names) > facts.FullMesh && m.tried == len(m.names)*facts.SampledPeers {
			findings = append(findings, checks.Finding{Verdict: checks.Pass, Summary: proof.Power(len(m.names))})
		}
		return append(findings, m.judge(found)...)
	},
}

// absent returns findings for nodes that other nodes could not connect to, or that could not
// connect themselves. It leaves out nodes whose ranks will use an unreachable address, because
// another check reports these.
func (m *meshCalls) absent() []checks.Finding {
	var findings []checks.Finding
	explained := map[string][]string{} // check → the nodes that it reports
	for _, node := range m.view.Nodes {
		check, mesh := m.misplaced[node.Name].explainedBy, node.Mesh
		switch {
		case check != "":
			explained[check] = append(explained[check], node.Name)
		case mesh.Error != "":
			findings = append(findings, checks.UnknownFor(node, "mesh: the agent could not listen: "+mesh.Error))
		case len(mesh.Reached)+len(mesh.Failed) == 0:
			findings = append(findings, checks.UnknownFor(node, "mesh: connected to no other node"))
		}
	}
	for _, by := range text.GroupBy(m.broken, caller) {
		findings = append(findings, checks.UnknownFor(m.nodes[by.Key], fmt.Sprintf("mesh: could not connect to %s: %s", hostfile.Fold(calleesOf(by.All)), by.All[0].Path.Error)))
	}
	if m.covered {
		findings = append(findings, checks.Skipped("a container network covers addresses of other nodes: see "+ContainerNetworks.ID)...)
	}
	for _, lost := range text.GroupBy(m.crowded, func(c proof.Attempt) string { return m.full[c.Path] }) {
		findings = append(findings, checks.Skipped(fmt.Sprintf("the full neighbour table of %s lost connections: see %s", lost.Key, NeighbourTable.ID))...)
	}
	for _, check := range slices.Sorted(maps.Keys(explained)) {
		findings = append(findings, checks.Skipped(fmt.Sprintf("no node can reach the address at which ranks of %s will listen: see %s", hostfile.Fold(explained[check]), check))...)
	}
	return findings
}

// fewPorts reports nodes whose kernel has fewer free ports than the ranks may need. Every rank listens
// on one port and connects to the store from another, so a launch with fewer ports cannot work. With
// c10d, node 0 needs three ports and one for each rank: torchrun connects to its own store there, and
// the ranks' store listens on a free port (torch 2.15, with gloo).
func fewPorts(view checks.View) (findings []checks.Finding) {
	first, _ := names.NodeZero(view)
	for _, node := range view.Nodes {
		if node.Net == nil || node.Net.EphemeralHigh == 0 {
			continue
		}
		ports, want := node.Net.EphemeralHigh-node.Net.EphemeralLow+1, 8*(node.Slots+1)
		if ports < want {
			f := checks.Finding{
				Verdict: checks.Warn, Nodes: []string{node.Name},
				Summary:  fmt.Sprintf("the kernel gives its programs only %d ports", ports),
				Got:      fmt.Sprintf("net.ipv4.ip_local_port_range is %d %d", node.Net.EphemeralLow, node.Net.EphemeralHigh),
				Want:     fmt.Sprintf("at least %d ports for the ranks of the node", want),
				WouldSee: "EADDRINUSE or Cannot assign requested address, if the ranks need more",
				Remedy:   []fix.Command{fix.On(`sudo sysctl -w net.ipv4.ip_local_port_range="32768 60999"   # until the next boot`)},
			}
			if view.Launch.Rendezvous == launch.RendezvousC10d && node == first && ports < node.Slots+3 {
				f.Verdict, f.WouldSee = checks.Fail, "The server socket has failed to listen on any local network address. port: 0 … EADDRINUSE"
			} else if ports < 2*node.Slots {
				f.Verdict, f.WouldSee = checks.Fail, "The client socket has failed to connect … (errno: 99 - Cannot assign requested address)"
			}
			findings = append(findings, f)
		}
	}
	return findings
}

// noRoutes returns findings for nodes whose own routing table has no route to a peer.
func (m *meshCalls) noRoutes() []checks.Finding {
	lacks := map[string]string{} // node → the nodes to which it has no route
	for _, by := range text.GroupBy(m.unroutable, caller) {
		lacks[by.Key] = hostfile.Fold(calleesOf(by.All))
		if m.reached[by.Key] == 0 {
			lacks[by.Key] = "any other node"
		}
	}
	var findings []checks.Finding
	for _, alike := range text.GroupBy(m.unroutable, func(c proof.Attempt) string { return lacks[c.From] + " " + m.routeTo(c) }) {
		call := alike.All[0]
		f := checks.Finding{
			Nodes:    callersOf(alike.All),
			Summary:  fmt.Sprintf("has no route to %s: it can neither connect nor answer", lacks[call.From]),
			Got:      fmt.Sprintf("%s to %s: %s", call.From, where(call.Path), call.Path.Error),
			WouldSee: m.wouldSee(call.Path),
			Remedy:   []fix.Command{fix.On("ip route get %s", fix.Host(call.Path.To)).As(fix.Look)},
		}
		network, device, known := strings.Cut(m.routeTo(call), " dev ")
		if kind := refusingRoutes[call.Path.Error]; kind != nil { // another route does not help, because the refusing one is more specific
			f.Want = "no route that refuses packets to the other nodes"
			f.Remedy = []fix.Command{fix.On("ip route show match %s type %s   # the route that refuses the packets", fix.Host(call.Path.To), kind).As(fix.Look)}
			addresses := slices.Compact(slices.Sorted(slices.Values(text.Map(alike.All, func(c proof.Attempt) string { return c.Path.To }))))
			for _, to := range addresses[:min(len(addresses), 3)] {
				f.Remedy = append(f.Remedy, fix.On("sudo ip route del %s %s   # or the network that the line above shows", kind, fix.Host(to)))
			}
			findings = append(findings, f)
			continue
		}
		if known {
			f.Want = "a route to " + network + " over " + device
			f.Remedy = append(f.Remedy, fix.On("sudo ip route replace %s dev %s", fix.Name(network), fix.Name(device)))
		}
		f.Remedy = append(f.Remedy, fix.On("ip route show   # delete unreachable, prohibit and blackhole routes to it with `ip route del`").As(fix.Look))
		findings = append(findings, f)
	}
	return findings
}

// refusingRoutes maps errors of connect(2) to the types of routes that cause them.
// Source: fib_props in net/ipv4/fib_semantics.c, Linux 6.1.
var refusingRoutes = map[string]fix.Arg{
	"invalid argument":  fix.Code("blackhole"),
	"no route to host":  fix.Code("unreachable"),
	"permission denied": fix.Code("prohibit"),
}

// routeTo returns the route to a callee on the caller's own network. It is "" if the callee is on
// another network, or if the network is unknown.
func (m *meshCalls) routeTo(call proof.Attempt) string {
	network, known := meshNetwork(m.nodes[call.From])
	to, err := netip.ParseAddr(call.Path.To)
	if !known || err != nil || !network.Contains(to) {
		return ""
	}
	return fmt.Sprintf("%s dev %s", network, m.nodes[call.From].Mesh.Interface)
}

// ownAddresses returns findings for nodes that cannot connect to their own address although other
// nodes can. The ranks of one node, of NCCL and of gloo, connect to each other at that address.
func (m *meshCalls) ownAddresses(found []proof.Suspect) []checks.Finding {
	var findings []checks.Finding
	for _, call := range m.own {
		isSuspect := func(s proof.Suspect) bool {
			return (s.Kind != proof.Outbound || s.How == call.How && isWrongAnswer(call.Path.Outcome)) && slices.Contains(s.Nodes, call.To)
		}
		if slices.ContainsFunc(found, isSuspect) {
			continue // the cause is the same firewall, or the same wrong report
		}
		f := checks.Finding{
			Nodes:    []string{call.To},
			Summary:  fmt.Sprintf("cannot reach its own address on %s: a connection to itself is %s", m.ports([]string{call.To}), call.How),
			Want:     "connections to its own address pass: the ranks of one node connect to each other there",
			WouldSee: m.wouldSee(call.Path),
			Remedy: []fix.Command{
				fix.On("sudo iptables -I INPUT -i lo -j ACCEPT   # until the firewall reloads"),
				fix.On("ip route get %s   # must print: local … dev lo", fix.Host(call.Path.To)).As(fix.Look),
			},
		}
		if lo := downLoopback(m.nodes[call.To]); lo != "" { // connections to a node's own addresses always use the loopback interface
			f.Summary, f.Got = fmt.Sprintf("%s is down, so the node cannot reach its own address", lo), fmt.Sprintf("a connection to %s is %s", where(call.Path), call.How)
			f.Remedy = []fix.Command{fix.On("sudo ip link set %s up", fix.Name(lo))}
		}
		switch {
		case !m.isMade(call):
			f.Verdict, f.WouldSee = checks.Warn, "nothing: a single rank does not connect to itself"
		case m.storeCall(call) != nil:
			f.Want = "connections to its own address pass: rank 0 connects to its own store there"
			f.WouldSee = timedOut(names.SplitEndpoint(m.storeCall(call).Endpoint))
		}
		findings = append(findings, f)
	}
	return findings
}

// downLoopback returns the name of a node's loopback interface if it is down, otherwise "".
func downLoopback(node *facts.Node) string {
	if node.Net != nil {
		for _, i := range node.Net.Interfaces {
			if i.Loopback && !i.Up {
				return i.Name
			}
		}
	}
	return ""
}

// where returns the address and port of a connection.
func where(path *facts.Path) string { return text.HostPort(path.To, path.Port) }

// meshCalls holds the connections of the mesh test, here named calls. The node that connects is the
// caller, and the other node is the callee. Each failed call is in the list of its kind.
type meshCalls struct {
	view      checks.View
	names     []string                 // nodes that listened for calls, in hostfile order
	nodes     map[string]*facts.Node   // the same nodes by name
	misplaced map[string]misplacement  // nodes whose rank address another check reports
	reached   map[string]int           // number of other nodes that each node reached
	tried     int                      // number of calls between different nodes
	anyFailed bool                     // if no call failed, the passed calls are not needed
	covered   bool                     // a call failed because a container network covers the peer's address
	macs      map[string][]*facts.Node // nodes by MAC address, computed on first use

	calls      []proof.Attempt // calls between different nodes, the input of proof.Suspects
	unroutable []proof.Attempt // calls for which the caller has no route
	partly     []proof.Attempt // failed calls to callees that answer on other ports
	own        []proof.Attempt // calls of a node to its own address
	broken     []proof.Attempt // calls that the caller could not try
	crowded    []proof.Attempt // calls that a full neighbour table lost

	full map[*facts.Path]string // each call of crowded → the node with the full table
}

func newMeshCalls(view checks.View) *meshCalls {
	m := &meshCalls{view: view, nodes: map[string]*facts.Node{}, reached: map[string]int{}}
	hasFailed := func(node *facts.Node) bool { return node.Mesh.Error != "" || len(node.Mesh.Failed) > 0 }
	if m.anyFailed = slices.ContainsFunc(view.Nodes, hasFailed); m.anyFailed {
		m.misplaced = misplaced(view)
		m.full = maps.Clone(lostCalls(view))
		reported := view.Failing(NeighbourTable.ID)
		maps.DeleteFunc(m.full, func(_ *facts.Path, node string) bool { return !reported[node] })
	}
	for _, node := range view.Nodes {
		if mesh := m.callsOf(node); mesh != nil && mesh.Error == "" {
			m.names = append(m.names, node.Name)
			m.nodes[node.Name] = node
		}
	}
	for _, name := range m.names {
		m.record(m.nodes[name])
	}
	m.explain()
	return m
}

// callsOf returns the calls that correspond to the connections of a node's ranks, or nil if there
// are none. If gloo's ranks never connect to a node, that node's ranks connect to the others, at
// addresses that lead there.
func (m *meshCalls) callsOf(node *facts.Node) *facts.Mesh {
	switch of := m.misplaced[node.Name]; {
	case of.explainedBy == "":
		return node.Mesh
	case of.byOrder:
		return node.PeerMesh
	}
	return nil
}

// weighed returns the finding about calls. It is only a warning if the ranks will make none of
// these calls.
func (m *meshCalls) weighed(f checks.Finding, calls []proof.Attempt) checks.Finding {
	if !slices.ContainsFunc(calls, m.isMade) {
		f.Verdict = checks.Warn
		f.WouldSee = "nothing with these addresses: in gloo, the rank with the larger address opens the connection, and that direction works"
	}
	return f
}

// isMade reports whether the ranks will make a tested call. In each pair of gloo ranks only one
// rank calls the other, and no gloo rank calls itself. Every rank calls the store.
func (m *meshCalls) isMade(call proof.Attempt) bool {
	from, to := m.nodes[call.From], m.nodes[call.To]
	switch {
	case ranks.UsesNCCL(m.view), m.storeCall(call) != nil:
		return true
	case from == to:
		return from.Slots != 1
	}
	return ranks.GlooMesh(m.view).Calls(from, to)
}

// storeCall returns the call to the store that failed in the same way as a tested call, or that the
// same rule ended. It returns nil if there is none. Rank 0 itself calls the store that it serves.
func (m *meshCalls) storeCall(call proof.Attempt) *facts.Rendezvous {
	seen, at := m.nodes[call.From].Rendezvous, m.nodes[call.To].Rendezvous
	for ; seen != nil && at != nil; seen, at = seen.Next, at.Next {
		isRedirected := func() bool { found := m.culprit(call); return found != nil && found.to != "" }
		if at.Serves && (seen.Failed == facts.HopConnect && seen.Outcome == call.Path.Outcome || seen.Failed == facts.HopValidate && isRedirected()) {
			return seen
		}
	}
	return nil
}

// record adds the calls of one node. It leaves out calls to a node that has no results of its own,
// because that node may have stopped listening.
func (m *meshCalls) record(node *facts.Node) {
	pass := func(peer string) {
		m.reached[node.Name]++
		m.tried++
		if m.anyFailed {
			m.calls = append(m.calls, proof.Attempt{From: node.Name, To: peer})
		}
	}
	mesh := m.callsOf(node)
	for peer := range mesh.Reached {
		if peer != node.Name && m.nodes[peer] != nil {
			pass(peer)
		}
	}
	for i := range mesh.Failed {
		path := &mesh.Failed[i]
		if m.nodes[path.Peer] == nil || path.Peer != node.Name && m.misplaced[path.Peer].byOrder {
			continue // another check reports these nodes
		}
		if path.Outcome == facts.PathBlackhole && path.Peer != node.Name {
			pass(path.Peer) // the connection works; path-mtu reports lost full packets
			continue
		}
		if m.isCovered(node, m.nodes[path.Peer]) && !isWrongAnswer(path.Outcome) {
			m.covered = true
			continue
		}
		kind := &m.calls
		switch {
		case path.Outcome == facts.PathBroken, path.Outcome == facts.PathUntried:
			kind = &m.broken
		case m.full[path] != "":
			kind = &m.crowded
		case path.Peer == node.Name:
			kind = &m.own
		case path.Outcome == facts.PathUnroutable:
			kind = &m.unroutable
		case len(path.Open) > 0 && !isWrongAnswer(path.Outcome):
			kind = &m.partly
		}
		*kind = append(*kind, proof.Attempt{From: node.Name, To: path.Peer, Failed: true, How: string(path.Outcome), Path: path})
		if path.Peer != node.Name {
			m.tried++
		}
	}
}

// isCovered reports whether a container network of one node covers the address of the other one.
// Packets between the two then end in that network, in both directions.
func (m *meshCalls) isCovered(a, b *facts.Node) bool {
	failing := m.view.Failing(ContainerNetworks.ID)
	return failing[a.Name] && covers(a, b) || failing[b.Name] && covers(b, a)
}

// explain prefers a node's own error to the silence of its peers. A node that has no route to a
// peer cannot answer that peer either. If one end of a pair gets an error and the other end only
// times out, both have the same cause.
func (m *meshCalls) explain() {
	if !slices.ContainsFunc(m.calls, func(call proof.Attempt) bool { return call.How == string(facts.PathDropped) }) {
		return
	}
	type pair [2]string
	noRoute, hasNone := map[pair]bool{}, map[string]bool{}
	for _, call := range m.unroutable {
		noRoute[pair{call.From, call.To}] = true
		hasNone[call.From] = true
	}
	passed := map[pair]bool{}
	for _, call := range m.calls {
		passed[pair{call.From, call.To}] = !call.Failed
	}
	m.calls = slices.DeleteFunc(m.calls, func(call proof.Attempt) bool {
		back := pair{call.To, call.From}
		return call.How == string(facts.PathDropped) && (noRoute[back] || hasNone[call.To] && !passed[back])
	})
	shareReasons(m.calls)
}

// shareReasons gives each call that only timed out the error of the call in the opposite direction.
// Both calls have the same cause.
func shareReasons(calls []proof.Attempt) {
	reason := map[[2]string]string{}
	for _, call := range calls {
		if call.How != string(facts.PathDropped) {
			reason[[2]string{call.To, call.From}] = call.How
		}
	}
	for i, call := range calls {
		if call.How == string(facts.PathDropped) {
			calls[i].How = cmp.Or(reason[[2]string{call.From, call.To}], call.How)
		}
	}
}

func caller(call proof.Attempt) string { return call.From }

func callersOf(calls []proof.Attempt) []string {
	return slices.Compact(text.Map(calls, caller)) // the calls are sorted by caller
}

func callee(call proof.Attempt) string { return call.To }

func calleesOf(calls []proof.Attempt) []string { return text.Map(calls, callee) }
