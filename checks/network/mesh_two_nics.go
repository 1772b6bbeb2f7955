// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/facts"
)

// twoNICs is a node with two interfaces in one network. The node has two connected routes to that
// network and uses one of them for all packets, whichever interface holds their source address.
type twoNICs struct {
	node  *facts.Node
	leave *facts.Interface // the interface by which packets to the peers leave
	other *facts.Interface // the interface in the same network by which they should leave
	calls []proof.Attempt  // failed calls that this explains
}

// twoNICs returns the nodes whose second interface in a network explains failed calls of a suspect.
func (m *meshCalls) twoNICs(s proof.Suspect) (found []twoNICs) {
	for _, name := range m.names {
		var calls []proof.Attempt
		var seen twoNICs
		for _, call := range s.Failed {
			peer := call.To
			if call.To == name {
				peer = call.From
			}
			if call.From != name && call.To != name {
				continue
			}
			if leave, other := bypassed(m.nodes[name], peer); leave != nil {
				calls, seen = append(calls, call), twoNICs{node: m.nodes[name], leave: leave, other: other}
			}
		}
		if calls != nil {
			seen.calls = calls
			found = append(found, seen)
		}
	}
	return found
}

// bypassed returns the interface by which packets to a peer leave, if it is not the interface of the
// ranks and both are in one network. It returns nil otherwise.
func bypassed(node *facts.Node, peer string) (leave, other *facts.Interface) {
	network, known := meshNetwork(node)
	if !known {
		return nil, nil
	}
	for _, route := range node.Net.Routes {
		if route.Name != peer || route.Gateway != "" || route.Interface == node.Mesh.Interface {
			continue
		}
		for i := range node.Net.Interfaces {
			held := &node.Net.Interfaces[i]
			inNetwork := slices.ContainsFunc(held.Addresses, func(text string) bool { return masked(text) == network.String() })
			switch {
			case held.Name == node.Mesh.Interface:
				other = held
			case held.Name == route.Interface && inNetwork:
				leave = held
			}
		}
	}
	if leave == nil || other == nil {
		return nil, nil
	}
	return leave, other
}

// masked returns the network of an address with a prefix length, or "" if text is none.
func masked(text string) string {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return ""
	}
	return prefix.Masked().String()
}

// explainTwoNICs returns the finding for a node with two interfaces in one network.
func (m *meshCalls) explainTwoNICs(found twoNICs) checks.Finding {
	network, _ := meshNetwork(found.node)
	spare := found.leave // the interface at which preflight did not reach the node
	if held, _, known := names.HolderOf(found.node, found.node.Address); known && held.Name == found.leave.Name {
		spare = found.other
	}
	f := checks.Finding{
		Nodes:    []string{found.node.Name},
		Summary:  fmt.Sprintf("%s and %s are both in %s, and packets to its peers leave by %s", found.other.Name, found.leave.Name, network, found.leave.Name),
		Got:      m.got(proof.Suspect{Failed: found.calls}),
		Want:     "one interface in each network, or a bond of both",
		WouldSee: m.wouldSee(found.calls[0].Path),
		Remedy:   []fix.Command{fix.On("ip route show %s; ip -br addr", fix.Name(network.String())).As(fix.Look)},
	}
	for _, text := range spare.Addresses {
		if masked(text) == network.String() {
			f.Remedy = append(f.Remedy, fix.On("sudo ip addr del %s dev %s", fix.Name(text), fix.Name(spare.Name)).Remark("until the next boot"))
		}
	}
	f.Remedy = append(f.Remedy, fix.Note("give %s an address in a network of its own, or bond it with the other interface", fix.Text(spare.Name)))
	return m.weighed(f, found.calls)
}
