package facts

import (
	"net/netip"
	"slices"
	"strings"
)

// containerBridges are how the names of interfaces begin that container engines and
// hypervisors make on a machine.
//
// Source: the defaults of Docker and podman, libvirt, and the CNI plugins bridge,
// flannel, Calico and Cilium.
var containerBridges = []string{"docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "lxc"}

// ForContainers is whether a container engine made the interface. Whether its link is up,
// how fast it is and what MAC it has says which containers run just now, and no launch
// should use it.
func (i Interface) ForContainers() bool {
	return slices.ContainsFunc(containerBridges, func(start string) bool { return strings.HasPrefix(i.Name, start) })
}

// Internal is whether the interface leads to nothing but this machine and what runs on it.
// A bridge may have an adapter and lead to the other nodes: who knows that it does is
// not to ask.
func (i Interface) Internal() bool {
	return i.Loopback || i.Kind == "bridge" || i.ForContainers() || i.Passing()
}

// Passing is whether the interface is the outer end of a container's, which comes and goes
// with it under a name of chance: it is part of a bridge, or holds no address that a peer
// could call. The inner end, which is the eth0 of a container, holds one.
func (i Interface) Passing() bool {
	return i.Kind == "veth" && (i.Master != "" || !slices.ContainsFunc(i.Addresses, callable))
}

// callable is whether an address, as an Interface has it, is more than link-local.
func callable(address string) bool {
	prefix, err := netip.ParsePrefix(address)
	return err == nil && !prefix.Addr().IsLinkLocalUnicast()
}

// IPv4 are its addresses of that kind, as CIDR prefixes.
func (i Interface) IPv4() (addresses []string) {
	for _, address := range i.Addresses {
		if prefix, err := netip.ParsePrefix(address); err == nil && prefix.Addr().Is4() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
