// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"slices"

	"preflight/facts"
)

// RailNamed is a node's rail of that name, nil where it has none.
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

// RailNames are those that any of the nodes has, in the order in which they are met.
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

// RailAnswered is whether every node has the rail and all that was called on it answered: everybody
// by everybody or, in a large fleet, by as many.
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

// RailsAnswered are the names of those that did.
func RailsAnswered(nodes []*facts.Node) (names []string) {
	for _, name := range RailNames(nodes) {
		if RailAnswered(nodes, name) {
			names = append(names, name)
		}
	}
	return names
}

// RailsApart is whether no port of an adapter answers one of another rail, as somebody on the way or on the
// link said of each call. Of calls that got no answer at all it may be TCP alone that did not pass: a machine
// that looks at which way packets come (net.ipv4.conf.*.rp_filter) throws these away, and adapters do not.
func RailsApart(nodes []*facts.Node) bool {
	said, tried := []facts.PathOutcome{facts.PathUnresolved, facts.PathUnroutable, facts.PathRejected, facts.PathRefused}, 0
	for _, node := range nodes {
		if node.Rails == nil {
			return false
		}
		for _, rail := range node.Rails.Rails {
			if rail.Across == nil {
				continue
			}
			wasSaid := func(path facts.Path) bool { return slices.Contains(said, path.Outcome) }
			if tried += len(rail.Across.Failed); len(rail.Across.Reached) > 0 || slices.ContainsFunc(rail.Across.Failed, func(p facts.Path) bool { return !wasSaid(p) }) {
				return false
			}
		}
	}
	return tried > 0
}
