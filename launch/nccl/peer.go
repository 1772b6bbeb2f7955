package nccl

import (
	"net/netip"
	"slices"

	"preflight/facts"
	"preflight/launch"
)

// PeerAddress is the interface and address that lead to the peers: the address
// the node was reached at, where one of its interfaces holds it. Behind a
// translated address, or on the launching machine itself, it is the interface
// that its routes to the peers leave by, where they agree, with the address they
// leave from. Address is "" where neither tells.
func PeerAddress(node *facts.Node) Choice {
	if node.Net == nil {
		return unseenNet
	}
	held := launch.HeldAddresses(node)
	if reached, err := netip.ParseAddr(node.Address); err == nil {
		if i, found := holder(held, reached); found && !i.Loopback {
			return Choice{Interface: i.Name, Address: reached.Unmap().WithZone("").String(), Rule: "the address it was reached at"}
		}
	}
	var way facts.Route
	for _, route := range node.Net.Routes {
		switch {
		case route.Interface == "" || isLoopback(node.Net, route.Interface):
		case way.Interface == "":
			way = route
		case route.Interface != way.Interface:
			return Choice{Rule: "not known: its routes to the peers leave by several interfaces, and none holds the address it was reached at"}
		case route.Source != way.Source:
			way.Source = "" // the interface's own first address will do
		}
	}
	if way.Interface == "" {
		return Choice{Rule: "not known: no interface holds the address it was reached at, and no route to a peer names one"}
	}
	const rule = "its routes to the peers leave there"
	if source, err := netip.ParseAddr(way.Source); err == nil {
		return Choice{Interface: way.Interface, Address: source.String(), Rule: rule}
	}
	for _, h := range held {
		if h.Name == way.Interface {
			return choiceOf(h, rule)
		}
	}
	return Choice{Interface: way.Interface, Rule: "not known: the interface that its routes to the peers leave by has no address"}
}

func isLoopback(net *facts.Net, name string) bool {
	return slices.ContainsFunc(net.Interfaces, func(i facts.Interface) bool { return i.Name == name && i.Loopback })
}
