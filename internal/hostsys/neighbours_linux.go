// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// NeighbourTable is one of the kernel's neighbour tables, which map addresses on a link to
// machines. There is one table for IPv4 and one for IPv6. Each contains the entries of all network
// namespaces of a machine.
type NeighbourTable struct {
	Name string // arp_cache for IPv4, ndisc_cache for IPv6
	// Thresholds holds gc_thresh1 to gc_thresh3: the number of entries that are never removed, the
	// number that is tolerated for five seconds, and the maximum.
	Thresholds [3]int
	// Entries counts all entries, including those that do not count towards the thresholds (see
	// [Learned]).
	Entries int
	// Overflows is how often the table has had no space for a neighbour since boot. It is nil if
	// the kernel does not count that.
	Overflows *int64
}

// The names of the tables.
const (
	ARPTable   = "arp_cache"
	NDiscTable = "ndisc_cache"
)

// TableOf returns the name of the table for an address.
func TableOf(address netip.Addr) string {
	if address.Unmap().Is4() {
		return ARPTable
	}
	return NDiscTable
}

// Learned counts the entries that count towards the thresholds, by table and interface. It covers
// only this process's network namespace.
type Learned map[string]map[string]int

// NextHop is the machine on a local link to which a packet for an address is sent.
type NextHop struct {
	Address netip.Addr // the address itself, or that of a gateway
	// Known means that the kernel has an entry for Address. Unanswered means that, according to the
	// entry, no machine has answered for the address.
	Known, Unanswered bool
}

// The layout of an RTM_GETNEIGHTBL message (include/uapi/linux/neighbour.h, Linux 6.18).
const (
	tableHeader  = 4 // struct ndtmsg
	tableName    = 1 // NDTA_NAME
	tableThresh1 = 2 // NDTA_THRESH1, followed by NDTA_THRESH2 and NDTA_THRESH3
	tableConfig  = 5 // NDTA_CONFIG, a struct ndt_config
	tableStats   = 7 // NDTA_STATS, a struct ndt_stats

	configEntries  = 4  // offset of ndt_config.ndtc_entries
	statsOverflows = 80 // offset of ndt_stats.ndts_table_fulls, which exists since Linux 4.3
)

// NeighbourTables returns the kernel's two neighbour tables.
//
// Netlink reports them in every network namespace. /proc/sys/net/ipv4/neigh/default and
// /proc/net/stat/arp_cache exist only in the first namespace, in which containers do not run.
// Source: neightbl_dump_info and neigh_proc_init in net/core/neighbour.c, arp_init in
// net/ipv4/arp.c, Linux 6.18.
func NeighbourTables() ([]NeighbourTable, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETNEIGHTBL, unix.NLM_F_DUMP)
	request.AddRawData(make([]byte, tableHeader))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGHTBL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("tables of neighbours: %w", err)
	}
	var tables []NeighbourTable
	for _, message := range messages {
		if table, isOne := parseTable(message); isOne {
			tables = append(tables, table)
		}
	}
	return tables, nil
}

// parseTable parses a message about a table. isOne is false for the messages that follow it, which
// contain a table's settings for one interface.
func parseTable(message []byte) (table NeighbourTable, isOne bool) {
	if len(message) < tableHeader {
		return table, false
	}
	attributes, err := nl.ParseRouteAttr(message[tableHeader:])
	if err != nil {
		return table, false
	}
	for _, attribute := range attributes {
		value := attribute.Value
		switch kind := int(attribute.Attr.Type); {
		case kind == tableName:
			table.Name = nl.BytesToString(value)
		case kind >= tableThresh1 && kind < tableThresh1+len(table.Thresholds) && len(value) >= 4:
			table.Thresholds[kind-tableThresh1] = int(binary.NativeEndian.Uint32(value))
			isOne = true
		case kind == tableConfig && len(value) >= configEntries+4:
			table.Entries = int(binary.NativeEndian.Uint32(value[configEntries:]))
		case kind == tableStats && len(value) >= statsOverflows+8:
			table.Overflows = new(int64(binary.NativeEndian.Uint64(value[statsOverflows:])))
		}
	}
	return table, isOne
}

// LearnedNeighbours counts the entries in the tables. It leaves out permanent entries and entries
// that another program manages, as overlay networks do.
//
// Source: neigh_alloc and neigh_update_gc_list in net/core/neighbour.c, Linux 5.0 to 6.18. Before
// 5.0 all entries counted.
func LearnedNeighbours() (Learned, error) {
	learned := Learned{}
	for table, family := range map[string]int{ARPTable: unix.AF_INET, NDiscTable: unix.AF_INET6} {
		entries, err := netlink.NeighList(0, family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return nil, fmt.Errorf("neighbours: %w", err)
		}
		counted := map[int]int{} // number of entries by index of the interface
		for _, entry := range entries {
			if entry.State&netlink.NUD_PERMANENT == 0 && entry.Flags&netlink.NTF_EXT_LEARNED == 0 {
				counted[entry.LinkIndex]++
			}
		}
		learned[table] = map[string]int{}
		for index, count := range counted {
			name := fmt.Sprintf("interface %d", index) // used if the interface has disappeared
			if link, err := net.InterfaceByIndex(index); err == nil {
				name = link.Name
			}
			learned[table][name] = count
		}
	}
	return learned, nil
}

// NextHopTo reads the next hop to an address from the routing and neighbour tables, without sending
// a packet. The route is over the interface by or, if by is "", over the interface that the kernel
// selects.
func NextHopTo(to netip.Addr, by string) (NextHop, error) {
	to = to.Unmap()
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{Oif: by})
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if err != nil {
		return NextHop{}, fmt.Errorf("route to %s: %w", to, err)
	}
	route, hop := routes[0], NextHop{Address: to}
	if gateway, isAddress := netip.AddrFromSlice(route.Gw); isAddress {
		hop.Address = gateway.Unmap()
	}
	entry, err := neighbour(hop.Address, route.LinkIndex)
	if entry == nil {
		return hop, err
	}
	hop.Known, hop.Unanswered = true, entry.State&(netlink.NUD_INCOMPLETE|netlink.NUD_FAILED) != 0
	return hop, nil
}

// neighbour returns the entry of an address on a link, nil if there is none.
func neighbour(address netip.Addr, link int) (*netlink.Neigh, error) {
	family := unix.AF_INET6
	if address.Is4() {
		family = unix.AF_INET
	}
	request := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	request.AddData(&netlink.Ndmsg{Family: uint8(family), Index: uint32(link)})
	request.AddData(nl.NewRtAttr(netlink.NDA_DST, address.AsSlice()))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case err == nil && len(messages) > 0:
		return netlink.NeighDeserialize(messages[0])
	}
	// Before 5.0 the kernel can only report all entries.
	entries, err := netlink.NeighList(link, family)
	for i := range entries {
		if is, isAddress := netip.AddrFromSlice(entries[i].IP); isAddress && is.Unmap() == address.WithZone("") {
			return &entries[i], nil
		}
	}
	return nil, err
}
