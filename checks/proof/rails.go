// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"slices"

	"preflight/facts"
)

// RailNamed returns the rail of a node with this name, or nil if the node has none.
func RailNamed(node *facts.Node, name string) *facts.Rail {
	if node.Rails == nil {
		return nil
	}
	at := slices.IndexFunc(node.Rails.Rails, func(r facts.Rail) bool { return r.Name == name })
	if at < 0 {
		return nil
	}
	return &node.Rails.Rails[at]
}

// RailNames returns the names of all rails, in the order of the nodes.
func RailNames(nodes []*facts.Node) (names []string) {
	seen := map[string]bool{}
	for _, node := range nodes {
		if node.Rails == nil {
			continue
		}
		for _, rail := range node.Rails.Rails {
			if !seen[rail.Name] {
				seen[rail.Name], names = true, append(names, rail.Name)
			}
		}
	}
	return names
}

// RailAnswered reports whether every node has the rail and all connections on it succeeded. There
// must be connections from every node to every node or, in a large fleet, to the same number of
// nodes.
func RailAnswered(nodes []*facts.Node, name string) bool {
	peers := len(nodes) - 1
	if len(nodes) > facts.RailCallers {
		peers = min(peers, facts.SampledPeers)
	}
	same := func(node *facts.Node) *facts.Mesh {
		rail := RailNamed(node, name)
		if rail == nil || len(rail.Same.Reached) < peers {
			return nil
		}
		return &rail.Same
	}
	return answeredPairs(nodes, same) > 0
}

// RailsAnswered returns the names of the rails for which RailAnswered is true.
func RailsAnswered(nodes []*facts.Node) (names []string) {
	for _, name := range RailNames(nodes) {
		if RailAnswered(nodes, name) {
			names = append(names, name)
		}
	}
	return names
}

// RailsApart reports whether no port of an adapter answers a port of another rail. Only an explicit
// error from the network or the link counts. If a connection gets no answer at all, perhaps only
// TCP is blocked: a machine with reverse path filtering (net.ipv4.conf.*.rp_filter) drops such
// packets, but adapters do not.
func RailsApart(nodes []*facts.Node) bool {
	explicit, tried := []facts.PathOutcome{facts.PathUnresolved, facts.PathUnroutable, facts.PathRejected, facts.PathRefused}, 0
	for _, node := range nodes {
		if node.Rails == nil {
			return false
		}
		for _, rail := range node.Rails.Rails {
			if rail.Across == nil {
				continue
			}
			isExplicit := func(path facts.Path) bool { return slices.Contains(explicit, path.Outcome) }
			if tried += len(rail.Across.Failed); len(rail.Across.Reached) > 0 || slices.ContainsFunc(rail.Across.Failed, func(p facts.Path) bool { return !isExplicit(p) }) {
				return false
			}
		}
	}
	return tried > 0
}
