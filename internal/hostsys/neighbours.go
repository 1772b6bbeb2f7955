// SPDX-License-Identifier: Apache-2.0

package hostsys

import "net/netip"

// NeighbourTable is one of the kernel's tables of who is at which address of its links. There
// is one for IPv4 and one for IPv6, for all network namespaces of a machine together.
type NeighbourTable struct {
	Name string // arp_cache for IPv4, ndisc_cache for IPv6
	// Thresholds are gc_thresh1 to gc_thresh3: how many entries are left alone, how many are
	// put up with for five seconds, and how many there may be.
	Thresholds [3]int
	// Entries are all there are, those too that no threshold counts (see [Learned]).
	Entries int
	// Overflows is how often since boot there was no room for a neighbour, nil where the
	// kernel does not count that.
	Overflows *int64
}

// The tables' names.
const (
	ARPTable   = "arp_cache"
	NDiscTable = "ndisc_cache"
)

// TableOf is the name of the table that an address belongs into.
func TableOf(address netip.Addr) string {
	if address.Unmap().Is4() {
		return ARPTable
	}
	return NDiscTable
}

// Learned counts the entries of this network namespace that the thresholds are about, by
// table and interface.
type Learned map[string]map[string]int

// NextHop is who a packet is handed to on its way to an address, on one of the own links.
type NextHop struct {
	Address netip.Addr // the address itself, or that of a gateway
	// Known is whether the kernel has an entry of it, and Unanswered whether that says that
	// nobody has answered for the address.
	Known, Unanswered bool
}
