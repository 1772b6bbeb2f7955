package checks

import (
	"fmt"
	"net/netip"
	"slices"

	"preflight/facts"
)

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
	view      View
	names     []string               // of the nodes that could be called, in hostfile order
	nodes     map[string]*facts.Node // the same by name
	misplaced map[string]string      // nodes whose rank address is another check's subject
	reached   map[string]int         // how many others each node reached
	tried     int                    // calls from a node to another

	calls []attempt     // between different nodes, to find suspects in
	paths []*facts.Path // of each call, nil when it passed

	wrong      []meshCall // somebody else answered
	unroutable []meshCall // the caller has no route
	partly     []meshCall // other ports of the callee answer
	own        []meshCall // a node and its own address
	broken     []meshCall // the caller could not try
}

func newMeshCalls(view View) *meshCalls {
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
			m.calls, m.paths = append(m.calls, attempt{from: node.Name, to: peer}), append(m.paths, nil)
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
			m.calls, m.paths = append(m.calls, attempt{from: node.Name, to: path.Peer}), append(m.paths, nil)
		case path.Outcome == facts.PathMisdirected, path.Outcome == facts.PathStranger:
			m.wrong = append(m.wrong, call)
		case path.Outcome == facts.PathUnroutable:
			m.unroutable = append(m.unroutable, call)
		case len(path.Open) > 0:
			m.partly = append(m.partly, call)
		default:
			m.calls, m.paths = append(m.calls, attempt{from: node.Name, to: path.Peer, failed: true, how: string(path.Outcome)}), append(m.paths, path)
		}
	}
}

// explain lets a node's own words count for more than its peers' silence: who
// has no route to a peer cannot answer it either, and where one end is told why
// and the other only waits, it is one trouble.
func (m *meshCalls) explain() {
	if !slices.ContainsFunc(m.calls, func(call attempt) bool { return call.failed }) {
		return
	}
	noRoute, hasNone := map[[2]string]bool{}, map[string]bool{}
	for _, call := range m.unroutable {
		noRoute[[2]string{call.from.Name, call.to.Name}] = true
		hasNone[call.from.Name] = true
	}
	passed, told := map[[2]string]bool{}, map[[2]string]string{}
	for _, call := range m.calls {
		pair := [2]string{call.from, call.to}
		passed[pair] = !call.failed
		if call.failed && call.how != string(facts.PathDropped) {
			told[pair] = call.how
		}
	}
	calls, paths := m.calls[:0], m.paths[:0]
	for i, call := range m.calls {
		back := [2]string{call.to, call.from}
		if call.how == string(facts.PathDropped) {
			if noRoute[back] || hasNone[call.to] && !passed[back] {
				continue
			}
			if told[back] != "" {
				call.how = told[back]
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
