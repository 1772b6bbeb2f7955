// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// LookedUp returns what a name or an address resolves to on a node, in the resolver's order. known
// is false if the name was not looked up there or had no answer in time.
func LookedUp(names *facts.Names, host string) (addresses []netip.Addr, known bool) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, true
	}
	if names == nil {
		return nil, false
	}
	at := slices.IndexFunc(names.Lookups, func(l facts.Lookup) bool { return hostfile.Bare(l.Name) == host })
	if at < 0 || names.Lookups[at].Unanswered {
		return nil, false
	}
	for _, text := range names.Lookups[at].Addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address.Unmap())
		}
	}
	return addresses, true
}

// SharedAddresses counts the machines that have each address and returns the addresses that more
// than one machine has: docker0's 172.17.0.1, or a duplicate address. Two entries for the same
// machine count once, and so does one address on two interfaces of a machine. SharedAddresses skips
// loopback addresses and IPv6 link-local addresses. A link-local address means nothing without its
// interface and may be the same on two links. If a node claims the addresses of several others (see
// [HoldsOthers]), its claim is ignored.
func SharedAddresses(nodes []*facts.Node) map[netip.Addr]int {
	aside := HoldsOthers(nodes)
	first := make(map[netip.Addr]string, len(nodes)) // address → the first machine with it
	holders := map[netip.Addr]map[string]bool{}
	for _, node := range nodes {
		if node.Net == nil {
			continue
		}
		machine := machineOr(node)
		for address := range addressesOf(node) {
			if aside[node.Name][address] != "" || address.IsLoopback() || address.Is6() && address.IsLinkLocalUnicast() {
				continue
			}
			switch earlier, met := first[address]; {
			case !met:
				first[address] = machine
			case earlier != machine && holders[address] == nil:
				holders[address] = map[string]bool{earlier: true, machine: true}
			case earlier != machine:
				holders[address][machine] = true
			}
		}
	}
	shared := map[netip.Addr]int{}
	for address, machines := range holders {
		shared[address] = len(machines)
	}
	return shared
}

// HoldsOthers returns the nodes that claim addresses of several other nodes. The inner map has each
// claimed address with the name of the node that was reached at that address. If a machine claims
// an address of only one other node, either machine may be wrong. If it claims the addresses of
// several, the claiming machine is wrong itself or reports wrong facts.
func HoldsOthers(nodes []*facts.Node) map[string]map[netip.Addr]string {
	hasNoNet := func(node *facts.Node) bool { return node.Net == nil }
	if slices.ContainsFunc(nodes, hasNoNet) {
		nodes = slices.DeleteFunc(slices.Clone(nodes), hasNoNet)
	}
	reached := make(map[netip.Addr]*facts.Node, len(nodes))
	for _, node := range nodes {
		address, err := netip.ParseAddr(node.Address)
		if err == nil && holds(node, address.Unmap()) {
			reached[address.Unmap()] = node
		}
	}
	others := map[string]map[netip.Addr]string{}
	for _, node := range nodes {
		var held map[netip.Addr]string
		for at := range addressesOf(node) {
			if other := reached[at]; other != nil && node.Address != other.Address && machineOr(node) != machineOr(other) {
				if held == nil {
					held = map[netip.Addr]string{}
				}
				held[at] = other.Name
			}
		}
		if len(held) > 1 {
			others[node.Name] = held
		}
	}
	return others
}

func holds(node *facts.Node, address netip.Addr) bool {
	for held := range addressesOf(node) {
		if held == address {
			return true
		}
	}
	return false
}

// addressesOf iterates over the addresses of a node, in no order.
func addressesOf(node *facts.Node) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for i := range node.Net.Interfaces {
			for _, text := range node.Net.Interfaces[i].Addresses {
				if prefix, err := netip.ParsePrefix(text); err == nil && !yield(prefix.Addr().Unmap()) {
					return
				}
			}
		}
	}
}

// machineOr returns the node's machine. If the machine is unknown, it returns a value that no other
// node has.
func machineOr(node *facts.Node) string {
	machine, known := Machine(node)
	if !known {
		return "entry " + node.Name
	}
	return machine
}

// Machine returns what two hostfile entries for the same machine have in common: boot ID, machine
// ID and network namespace. Containers with their own network therefore count as separate machines.
// known is false if the node did not report these values.
func Machine(node *facts.Node) (machine string, known bool) {
	if node.Host == nil || node.Host.BootID == "" || node.Host.NetNamespace == "" {
		return "", false
	}
	return node.Host.BootID + " " + node.Host.MachineID + " " + node.Host.NetNamespace, true
}

// HeldAddress is an address and the interface that has it.
type HeldAddress struct {
	*facts.Interface
	netip.Prefix
}

// HeldAddresses returns the addresses of a node in the order of the C library. All IPv4 addresses
// come first, interface by interface, then all IPv6 addresses. The addresses of an interface are in
// the order in which they were added. NCCL, gloo, tensorpipe and hostname all walk this list and
// take the first address that suits them.
//
// Source: glibc, sysdeps/unix/sysv/linux/ifaddrs.c, which keeps the order of the kernel's dump;
// seen with glibc 2.36 on Linux 6.18.
func HeldAddresses(node *facts.Node) []HeldAddress {
	interfaces := inKernelOrder(node)
	held := make([]HeldAddress, 0, len(interfaces)+1) // usually one per interface, plus ::1
	for _, isIPv4 := range []bool{true, false} {
		for i := range interfaces {
			for _, text := range interfaces[i].Addresses {
				if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() == isIPv4 {
					held = append(held, HeldAddress{&interfaces[i], prefix})
				}
			}
		}
	}
	return held
}

// inKernelOrder returns the interfaces of a node in the order of its kernel. Probes report them in
// the order of newer kernels, for which no sorting is needed.
func inKernelOrder(node *facts.Node) []facts.Interface {
	interfaces := node.Net.Interfaces
	inTurn := func(a, b facts.Interface) int { return cmp.Compare(a.Index, b.Index) }
	if kernel := node.Host; kernel != nil && hostfile.Before(KernelRelease(kernel.Kernel), "6.9") {
		inTurn = byHash
	}
	if slices.IsSortedFunc(interfaces, inTurn) {
		return interfaces
	}
	return slices.SortedStableFunc(slices.Values(interfaces), inTurn)
}

// byHash compares interfaces in the order of kernels before 6.9. These kernels walk a hash table of
// 256 buckets and start each bucket with its newest interface. A docker bridge with index 258
// therefore comes before the adapter with index 2.
//
// Source: Linux 6.8, net/ipv4/devinet.c, inet_dump_ifaddr, and net/core/dev.c, list_netdevice; 6.9,
// commit cdb2f80f1c10.
func byHash(a, b facts.Interface) int {
	const buckets = 256
	return cmp.Or(cmp.Compare(a.Index%buckets, b.Index%buckets), cmp.Compare(b.Index, a.Index))
}

// KernelRelease returns the version at the start of a kernel's name: 5.14.0 for "5.14.0-362.el9_3".
func KernelRelease(kernel string) string {
	version, _, _ := strings.Cut(kernel, "-")
	return version
}
