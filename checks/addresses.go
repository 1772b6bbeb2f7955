package checks

import (
	"net/netip"

	"preflight/facts"
)

// addressesOf is every address of a node that means something elsewhere.
func addressesOf(node *facts.Node) []netip.Addr {
	var addresses []netip.Addr
	for _, i := range node.Net.Interfaces {
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err == nil && !prefix.Addr().IsLoopback() && !(prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast()) {
				addresses = append(addresses, prefix.Addr())
			}
		}
	}
	return addresses
}

// networkOf is the network that an interface's address is in.
func networkOf(node *facts.Node, address string) (network netip.Prefix, known bool) {
	_, network, known = holderOf(node, address)
	return network, known
}

// holderOf is the interface of a node that holds an address, and the network
// that it is in there.
func holderOf(node *facts.Node, address string) (held *facts.Interface, network netip.Prefix, known bool) {
	for i := range node.Net.Interfaces {
		for _, text := range node.Net.Interfaces[i].Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err == nil && prefix.Addr().String() == address {
				return &node.Net.Interfaces[i], prefix.Masked(), true
			}
		}
	}
	return nil, netip.Prefix{}, false
}
