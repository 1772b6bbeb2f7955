// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// Gloo returns the address that gloo's first device will use on the node. Every name in
// GLOO_SOCKET_IFNAME must be an interface with an address, but the interface need not be up. If the
// variable is not set, gloo uses the address of the node's own host name.
//
// Source: pytorch/pytorch 2.7, ProcessGroupGloo.cpp, Options::create_default;
// facebookincubator/gloo, transport/tcp/device.cc, lookupAddrForIface.
func Gloo(p launch.Prediction, node *facts.Node) Choice {
	if node.Net == nil {
		return unseenNet
	}
	env := launch.RankEnv(node.Env, p.Exports)
	given, set := env.Lookup("GLOO_SOCKET_IFNAME")
	if !set || len(given.Value) < 2 {
		return ownName(node)
	}
	held, first := launch.HeldAddresses(node), Choice{}
	for _, name := range strings.Split(strings.TrimSuffix(given.Value, ","), ",") {
		at := slices.IndexFunc(held, func(h launch.HeldAddress) bool { return h.Name == name })
		switch {
		case name == "":
			return Choice{Error: "makeTCPDevice(): interface or hostname can't be empty"}
		case at < 0:
			return Choice{Error: "Unable to find address for: " + name}
		case first == Choice{}:
			first = choiceOf(held[at], cite(env, given))
		}
	}
	return first
}

// ownName returns the first address of the node's own host name that can be bound there. A loopback
// address can be bound, so gloo uses it without an error, as with Debian's line "127.0.1.1
// hostname".
//
// Source: pytorch/pytorch 2.7, ProcessGroupGloo.cpp, createDefaultDevice.
func ownName(node *facts.Node) Choice {
	if node.Names == nil {
		return Choice{Rule: "not known: how the node resolves its own name was not seen"}
	}
	own := node.Names.Own
	addresses, known := launch.LookedUp(node.Names, own)
	if !known {
		return Choice{Rule: fmt.Sprintf("not known: what its own name resolves to was not seen%s", unanswered(node.Names, own))}
	}
	held := launch.HeldAddresses(node)
	for _, address := range addresses {
		rule := fmt.Sprintf("its own name %s resolves to it", own)
		if i, found := holder(held, address); found {
			return Choice{Interface: i.Name, Address: address.WithZone("").String(), Rule: rule}
		}
		if address.Is4() && address.IsLoopback() { // all of 127.0.0.0/8 can be bound
			return Choice{Interface: loopbackName(node.Net), Address: address.String(), Rule: rule}
		}
	}
	return Choice{Interface: loopbackName(node.Net), Address: "127.0.0.1",
		Rule: fmt.Sprintf("its own name %s resolves to no address of the node, so gloo falls back to the loopback", own)}
}

// unanswered returns the reason why a node could not look up a name, as the end of a sentence.
func unanswered(names *facts.Names, host string) string {
	for _, lookup := range names.Lookups {
		if hostfile.Bare(lookup.Name) == host && lookup.Unanswered && lookup.Error != "" {
			return ": " + lookup.Error
		}
	}
	return ""
}

func loopbackName(net *facts.Net) string {
	at := slices.IndexFunc(net.Interfaces, func(i facts.Interface) bool { return i.Loopback })
	if at < 0 {
		return ""
	}
	return net.Interfaces[at].Name
}

// GlooMesh tells which of gloo's ranks connect to which others. Every pair of ranks has one
// connection, and the order of their two addresses decides which side opens it. A node with an
// unreachable address does no harm if it opens all its connections itself.
type GlooMesh struct {
	at            map[*facts.Node]netip.Addr
	least, second *facts.Node // sorted by address
	most, next    *facts.Node
}

// NewGlooMesh returns the mesh of those nodes whose address is known.
func NewGlooMesh(nodes []*facts.Node, choice func(*facts.Node) Choice) GlooMesh {
	m := GlooMesh{at: map[*facts.Node]netip.Addr{}}
	var order []*facts.Node
	for _, node := range nodes {
		if address, err := netip.ParseAddr(choice(node).Address); err == nil {
			m.at[node] = address.Unmap()
			order = append(order, node)
		}
	}
	slices.SortStableFunc(order, func(a, b *facts.Node) int { return m.at[a].Compare(m.at[b]) })
	if last := len(order) - 1; last > 0 {
		m.least, m.second, m.next, m.most = order[0], order[1], order[last-1], order[last]
	}
	return m
}

// Calls reports whether ranks of node from may have to connect to ranks of node to. The larger
// address connects to the smaller one, compared byte by byte. If the addresses are equal, the
// larger port connects, which is unknown in advance. If the addresses are of different families,
// both sides fail.
//
// Source: facebookincubator/gloo, transport/tcp/pair.cc, Pair::connect, from 2017 to May 2023, and
// since then transport/tcp/device.cc, isInitiator, and transport/uv/device.cc: the same order in
// all releases of pytorch.
func (m GlooMesh) Calls(from, to *facts.Node) bool {
	caller, known := m.at[from]
	callee, isToo := m.at[to]
	return known && isToo && from != to && (caller.BitLen() != callee.BitLen() || caller.Compare(callee) >= 0)
}

// Caller returns the node with the largest address whose ranks may have to connect to this node. It
// returns nil if this node's ranks open all their connections themselves.
func (m GlooMesh) Caller(node *facts.Node) *facts.Node {
	for _, other := range []*facts.Node{m.most, m.next, m.least, m.second} {
		if m.Calls(other, node) {
			return other
		}
	}
	return nil
}
