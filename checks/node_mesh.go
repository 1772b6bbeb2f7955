package checks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

var nodeMesh = Check{
	ID:       "node-mesh",
	Title:    "every node reaches every other, and itself, on the addresses the ranks will use",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionMesh},
	Doc: "Every node listened on ports of the ephemeral range at the address that NCCL or gloo will take there, and every node called every other and " +
		"itself, in both directions; above 128 nodes the next one and six at random. What failed is blamed on as few nodes, groups or directions as " +
		"explain it, and a node's own words (no route) count for more than its peers' silence. sshd's port being open says nothing of these: a " +
		"training job needs every port of the range, between all pairs.",
	WouldSee: "connect to ADDRESS<PORT> returned Connection timed out, exceeded error retry count after 35 attempts",
	Run: func(view View) []Finding {
		m := newMeshCalls(view)
		found := suspects(m.names, m.calls)
		findings := m.tookNoPart()
		findings = append(findings, m.wrongAnswers()...)
		findings = append(findings, m.noRoutes()...)
		findings = append(findings, m.partlyOpen()...)
		findings = append(findings, m.ownAddresses(found)...)
		for _, s := range found {
			findings = append(findings, m.finding(s))
		}
		return findings
	},
}

// tookNoPart is about nodes that nobody could call, and those that could not
// call. Where the ranks of a node are misplaced, another check says so.
func (m *meshCalls) tookNoPart() []Finding {
	var findings []Finding
	saidBy := map[string][]string{}
	for _, node := range m.view.Nodes {
		check, mesh := m.misplaced[node.Name], node.Mesh
		switch {
		case check != "":
			saidBy[check] = append(saidBy[check], node.Name)
		case mesh.Error != "":
			findings = append(findings, unknown(node, "mesh: did not listen: "+mesh.Error))
		case len(mesh.Reached)+len(mesh.Failed) == 0:
			findings = append(findings, unknown(node, "mesh: called nobody"))
		}
	}
	for _, calls := range callsBy(m.broken, func(c meshCall) string { return c.from.Name }) {
		findings = append(findings, unknown(calls[0].from, fmt.Sprintf("mesh: could not call %s: %s", hostfile.Fold(calleesOf(calls)), calls[0].path.Error)))
	}
	for _, check := range slices.Sorted(maps.Keys(saidBy)) {
		findings = append(findings, skip(fmt.Sprintf("%s cannot be called where its ranks will listen: see %s", hostfile.Fold(saidBy[check]), check))...)
	}
	return findings
}

// wrongAnswers is about addresses at which somebody else answers.
func (m *meshCalls) wrongAnswers() []Finding {
	var findings []Finding
	for _, calls := range callsBy(m.wrong, func(c meshCall) string { return c.to.Name + " " + c.path.Answered }) {
		call := calls[0]
		f := Finding{
			Nodes:    []string{call.to.Name},
			Summary:  "its address is answered by a machine that is no node of this launch",
			Got:      fmt.Sprintf("%s called %s", hostfile.Fold(callersOf(calls)), where(call.path)),
			Want:     "one machine for every address",
			WouldSee: m.wouldSee(call.path),
			Remedy: []fix.Command{
				fix.On("ip neigh show %s   # the MAC address of who answers there", fix.Host(call.path.To)).At(call.from.Name),
				fix.On("ip -br link   # and its own"),
			},
		}
		if isOfFleet(m.view, call.path.Answered) {
			f.Nodes = append(f.Nodes, call.path.Answered)
			f.Summary = fmt.Sprintf("calls to %s are answered by %s: two machines hold the address, or it is translated", call.to.Name, call.path.Answered)
			f.Remedy[1] = fix.On("ip -br addr")
		}
		findings = append(findings, f)
	}
	return findings
}

// isOfFleet is whether a name that a node sent is another node's.
func isOfFleet(view View, name string) bool {
	return slices.ContainsFunc(view.All, func(node facts.Node) bool { return node.Name == name })
}

// noRoutes is about nodes whose own routing tables have no way to a peer.
func (m *meshCalls) noRoutes() []Finding {
	lacks := map[string]string{} // node → what it has no route to
	for _, calls := range callsBy(m.unroutable, func(c meshCall) string { return c.from.Name }) {
		name := calls[0].from.Name
		lacks[name] = hostfile.Fold(calleesOf(calls))
		if m.reached[name] == 0 {
			lacks[name] = "any other node"
		}
	}
	var findings []Finding
	for _, calls := range callsBy(m.unroutable, func(c meshCall) string { return lacks[c.from.Name] + " " + routeTo(c) }) {
		call := calls[0]
		f := Finding{
			Nodes:    callersOf(calls),
			Summary:  fmt.Sprintf("has no route to %s, nor can it answer", lacks[call.from.Name]),
			Got:      fmt.Sprintf("%s called %s: %s", call.from.Name, where(call.path), call.path.Error),
			WouldSee: m.wouldSee(call.path),
			Remedy:   []fix.Command{fix.On("ip route get %s", fix.Host(call.path.To))},
		}
		if network, device, known := strings.Cut(routeTo(call), " dev "); known {
			f.Want = "a route to " + network + " by " + device
			f.Remedy = append(f.Remedy, fix.On("sudo ip route replace %s dev %s", fix.Name(network), fix.Name(device)))
		}
		f.Remedy = append(f.Remedy, fix.On("ip route show   # take out by `ip route del` what is unreachable, prohibit or blackhole there"))
		findings = append(findings, f)
	}
	return findings
}

// routeTo is the route to a callee on the caller's own network, "" where the
// callee is not on it or the network was not seen.
func routeTo(call meshCall) string {
	network, known := meshNetwork(call.from)
	to, err := netip.ParseAddr(call.path.To)
	if !known || err != nil || !network.Contains(to) {
		return ""
	}
	return fmt.Sprintf("%s dev %s", network, call.from.Mesh.Interface)
}

// ownAddresses is about nodes that cannot call themselves, though others can:
// NCCL's and gloo's ranks of one node do it too.
func (m *meshCalls) ownAddresses(found []suspect) []Finding {
	var findings []Finding
	for _, call := range m.own {
		isSuspect := func(s suspect) bool { return s.kind != outbound && slices.Contains(s.nodes, call.to.Name) }
		if slices.ContainsFunc(found, isSuspect) {
			continue // the same firewall
		}
		findings = append(findings, Finding{
			Nodes:    []string{call.to.Name},
			Summary:  fmt.Sprintf("cannot reach its own address on %s: a call to itself is %s", m.ports([]string{call.to.Name}), call.path.Outcome),
			Want:     "the ranks of a node call each other at that address",
			WouldSee: m.wouldSee(call.path),
			Remedy: []fix.Command{
				fix.On("sudo iptables -I INPUT -i lo -j ACCEPT   # until the next reload of the firewall"),
				fix.On("ip route get %s   # local … dev lo, if the address is its own", fix.Host(call.path.To)),
			},
		})
	}
	return findings
}
