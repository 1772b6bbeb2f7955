package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/proof"
	"preflight/facts"
	"preflight/hostfile"
)

var NodeMesh = checks.Check{
	ID:       "node-mesh",
	Title:    "every node reaches every other, and itself, on the addresses the ranks will use",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionMesh},
	Doc: "Every node listened on ports of the ephemeral range at the address that NCCL or gloo will take there, and every node called every other and " +
		"itself, in both directions; above 128 nodes the next one and six at random. What failed is blamed on as few nodes, groups or directions as " +
		"explain it, and a node's own words (no route) count for more than its peers' silence. sshd's port being open says nothing of these: a " +
		"training job needs every port of the range, between all pairs.",
	WouldSee: "connect to ADDRESS<PORT> returned Connection timed out, exceeded error retry count after 35 attempts",
	Run: func(view checks.View) []checks.Finding {
		m := newMeshCalls(view)
		found := proof.Suspects(m.names, m.calls)
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
func (m *meshCalls) tookNoPart() []checks.Finding {
	var findings []checks.Finding
	saidBy := map[string][]string{}
	for _, node := range m.view.Nodes {
		check, mesh := m.misplaced[node.Name], node.Mesh
		switch {
		case check != "":
			saidBy[check] = append(saidBy[check], node.Name)
		case mesh.Error != "":
			findings = append(findings, checks.UnknownFor(node, "mesh: did not listen: "+mesh.Error))
		case len(mesh.Reached)+len(mesh.Failed) == 0:
			findings = append(findings, checks.UnknownFor(node, "mesh: called nobody"))
		}
	}
	for _, calls := range callsBy(m.broken, func(c meshCall) string { return c.from.Name }) {
		findings = append(findings, checks.UnknownFor(calls[0].from, fmt.Sprintf("mesh: could not call %s: %s", hostfile.Fold(calleesOf(calls)), calls[0].path.Error)))
	}
	for _, check := range slices.Sorted(maps.Keys(saidBy)) {
		findings = append(findings, checks.Skipped(fmt.Sprintf("%s cannot be called where its ranks will listen: see %s", hostfile.Fold(saidBy[check]), check))...)
	}
	return findings
}

// wrongAnswers is about addresses at which somebody else answers.
func (m *meshCalls) wrongAnswers() []checks.Finding {
	var findings []checks.Finding
	for _, calls := range callsBy(m.wrong, func(c meshCall) string { return c.to.Name + " " + c.path.Answered }) {
		call := calls[0]
		f := checks.Finding{
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
func isOfFleet(view checks.View, name string) bool {
	return slices.ContainsFunc(view.All, func(node facts.Node) bool { return node.Name == name })
}

// noRoutes is about nodes whose own routing tables have no way to a peer.
func (m *meshCalls) noRoutes() []checks.Finding {
	lacks := map[string]string{} // node → what it has no route to
	for _, calls := range callsBy(m.unroutable, func(c meshCall) string { return c.from.Name }) {
		name := calls[0].from.Name
		lacks[name] = hostfile.Fold(calleesOf(calls))
		if m.reached[name] == 0 {
			lacks[name] = "any other node"
		}
	}
	var findings []checks.Finding
	for _, calls := range callsBy(m.unroutable, func(c meshCall) string { return lacks[c.from.Name] + " " + routeTo(c) }) {
		call := calls[0]
		f := checks.Finding{
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
func (m *meshCalls) ownAddresses(found []proof.Suspect) []checks.Finding {
	var findings []checks.Finding
	for _, call := range m.own {
		isSuspect := func(s proof.Suspect) bool { return s.Kind != proof.Outbound && slices.Contains(s.Nodes, call.to.Name) }
		if slices.ContainsFunc(found, isSuspect) {
			continue // the same firewall
		}
		findings = append(findings, checks.Finding{
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

// meshCall is one call that failed.
type meshCall struct {
	from, to *facts.Node
	path     *facts.Path
}

// where is the address and port that was called.
func where(path *facts.Path) string {
	address, err := netip.ParseAddr(path.To)
	if err != nil {
		return fmt.Sprintf("%s:%d", path.To, path.Port)
	}
	return netip.AddrPortFrom(address, uint16(path.Port)).String()
}

// meshCalls is the whole mesh, each failed call where it is judged.
type meshCalls struct {
	view      checks.View
	names     []string               // of the nodes that could be called, in hostfile order
	nodes     map[string]*facts.Node // the same by name
	misplaced map[string]string      // nodes whose rank address is another check's subject
	reached   map[string]int         // how many others each node reached
	tried     int                    // calls from a node to another

	calls []proof.Attempt // between different nodes, to find suspects in
	paths []*facts.Path   // of each call, nil when it passed

	wrong      []meshCall // somebody else answered
	unroutable []meshCall // the caller has no route
	partly     []meshCall // other ports of the callee answer
	own        []meshCall // a node and its own address
	broken     []meshCall // the caller could not try
}

func newMeshCalls(view checks.View) *meshCalls {
	m := &meshCalls{view: view, nodes: map[string]*facts.Node{}, reached: map[string]int{}}
	if slices.ContainsFunc(view.Nodes, isTroubled) {
		m.misplaced = misplaced(view)
	}
	for _, node := range view.Nodes {
		if node.Mesh.Error == "" && m.misplaced[node.Name] == "" {
			m.names = append(m.names, node.Name)
			m.nodes[node.Name] = node
		}
	}
	for _, node := range view.Nodes {
		if m.nodes[node.Name] != nil {
			m.hear(node)
		}
	}
	m.explain()
	return m
}

func isTroubled(node *facts.Node) bool { return node.Mesh.Error != "" || len(node.Mesh.Failed) > 0 }

// hear takes in what came of one node's calls. What others say of a node whose
// own part was not seen is not held against it: it may have stopped listening.
func (m *meshCalls) hear(node *facts.Node) {
	for peer := range node.Mesh.Reached {
		if peer != node.Name && m.nodes[peer] != nil {
			m.reached[node.Name]++
			m.calls, m.paths = append(m.calls, proof.Attempt{From: node.Name, To: peer}), append(m.paths, nil)
		}
	}
	m.tried += m.reached[node.Name]
	for i := range node.Mesh.Failed {
		path := &node.Mesh.Failed[i]
		call := meshCall{node, m.nodes[path.Peer], path}
		if call.to != nil && call.to != node {
			m.tried++
		}
		switch {
		case call.to == nil:
		case path.Outcome == facts.PathBroken:
			m.broken = append(m.broken, call)
		case call.to == node:
			m.own = append(m.own, call)
		case path.Outcome == facts.PathBlackhole: // a call; that full packets do not cross is path-mtu's
			m.reached[node.Name]++
			m.calls, m.paths = append(m.calls, proof.Attempt{From: node.Name, To: path.Peer}), append(m.paths, nil)
		case path.Outcome == facts.PathMisdirected, path.Outcome == facts.PathStranger:
			m.wrong = append(m.wrong, call)
		case path.Outcome == facts.PathUnroutable:
			m.unroutable = append(m.unroutable, call)
		case len(path.Open) > 0:
			m.partly = append(m.partly, call)
		default:
			m.calls, m.paths = append(m.calls, proof.Attempt{From: node.Name, To: path.Peer, Failed: true, How: string(path.Outcome)}), append(m.paths, path)
		}
	}
}

// explain lets a node's own words count for more than its peers' silence: who
// has no route to a peer cannot answer it either, and where one end is told why
// and the other only waits, it is one trouble.
func (m *meshCalls) explain() {
	if !slices.ContainsFunc(m.calls, func(call proof.Attempt) bool { return call.Failed }) {
		return
	}
	noRoute, hasNone := map[[2]string]bool{}, map[string]bool{}
	for _, call := range m.unroutable {
		noRoute[[2]string{call.from.Name, call.to.Name}] = true
		hasNone[call.from.Name] = true
	}
	passed, told := map[[2]string]bool{}, map[[2]string]string{}
	for _, call := range m.calls {
		pair := [2]string{call.From, call.To}
		passed[pair] = !call.Failed
		if call.Failed && call.How != string(facts.PathDropped) {
			told[pair] = call.How
		}
	}
	calls, paths := m.calls[:0], m.paths[:0]
	for i, call := range m.calls {
		back := [2]string{call.To, call.From}
		if call.How == string(facts.PathDropped) {
			if noRoute[back] || hasNone[call.To] && !passed[back] {
				continue
			}
			if told[back] != "" {
				call.How = told[back]
			}
		}
		calls, paths = append(calls, call), append(paths, m.paths[i])
	}
	m.calls, m.paths = calls, paths
}

// callsBy gathers calls by a key, in the order they were met.
func callsBy(calls []meshCall, key func(meshCall) string) [][]meshCall {
	var gathered [][]meshCall
	at := map[string]int{}
	for _, call := range calls {
		i, seen := at[key(call)]
		if !seen {
			i = len(gathered)
			at[key(call)] = i
			gathered = append(gathered, nil)
		}
		gathered[i] = append(gathered[i], call)
	}
	return gathered
}

func callersOf(calls []meshCall) []string {
	var names []string
	for _, call := range calls {
		names = append(names, call.from.Name)
	}
	return slices.Compact(names) // calls stand in the order of their callers
}

func calleesOf(calls []meshCall) []string {
	var names []string
	for _, call := range calls {
		names = append(names, call.to.Name)
	}
	return names
}
