package names

import (
	"net/netip"

	"preflight/facts"
	"preflight/launch/nccl"
)

// AddressesOf is every address of a node that means something elsewhere.
func AddressesOf(node *facts.Node) []netip.Addr {
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

// NetworkOf is the network that an interface's address is in.
func NetworkOf(node *facts.Node, address string) (network netip.Prefix, known bool) {
	_, network, known = HolderOf(node, address)
	return network, known
}

// HolderOf is the interface of a node that holds an address, and the network
// that it is in there.
func HolderOf(node *facts.Node, address string) (held *facts.Interface, network netip.Prefix, known bool) {
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

func PeerInterface(node *facts.Node) string { return nccl.PeerAddress(node).Interface }
