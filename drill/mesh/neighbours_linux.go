// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"cmp"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"preflight/facts"
	"preflight/internal/hostsys"
)

// hardware sets the Ethernet address of each peer whose call failed, if the kernel's neighbour
// table has it. The table is fresh, because the calls have just used it. A peer behind a router has
// no entry and is left out.
func (c *calling) hardware(failed []facts.Path) {
	if len(failed) == 0 {
		return
	}
	link, _ := net.InterfaceByName(c.Interface) // nil if no interface is set, so that all interfaces count
	learned, err := netlink.NeighList(0, netlink.FAMILY_ALL)
	if err != nil && len(learned) == 0 { // a partial result is better than none
		return
	}
	macs := map[netip.Addr]string{}
	for _, n := range learned {
		address, isAddress := netip.AddrFromSlice(n.IP)
		if isOther := link != nil && n.LinkIndex != link.Index; isOther {
			continue
		}
		if isAddress && len(n.HardwareAddr) == ethernet && n.State&resolved != 0 {
			macs[address.Unmap()] = n.HardwareAddr.String()
		}
	}
	holders := map[string]int{} // number of peers by MAC
	for _, peer := range c.Peers {
		if mac := macs[ipOf(peer.Address)]; mac != "" {
			holders[mac]++
		}
	}
	for i := range failed {
		mac := macs[ipOf(failed[i].To)]
		failed[i].MAC, failed[i].MACShared = mac, holders[mac] > 1
	}
}

// overflows returns how often the neighbour table for these peers had no room, 0 if the kernel does
// not count that.
func (c *calling) overflows() int64 {
	tables, _ := hostsys.NeighbourTables() // nil if the kernel does not report them
	for _, table := range tables {
		for _, peer := range c.Peers {
			ip, err := netip.ParseAddr(peer.Address)
			if err == nil && table.Name == hostsys.TableOf(ip) && table.Overflows != nil {
				return *table.Overflows
			}
		}
	}
	return 0
}

// nextHops adds the effect of the neighbour table to calls without an answer. If the table has no
// room for the peer, the connection gets no error. The kernel drops its packets, and retries until
// the time of the call is over.
//
// If the table refused entries and the peer is not in it at that time, the table has refused the
// peer as well. The loopback interface has an entry too, which a full table removes first. In that
// case a node cannot even call itself.
//
// Source: ip_finish_output2 in net/ipv4/ip_output.c, whose ENOBUFS tcp_connect ignores
// (net/ipv4/tcp_output.c); neigh_forced_gc in net/core/neighbour.c; Linux 6.18.
func (c *calling) nextHops(failed []facts.Path, hasOverflown bool) {
	for i := range failed {
		path := &failed[i]
		isLost := hasOverflown && slices.Contains(unanswered, path.Outcome)
		isBound := c.Interface != "" && path.Outcome == facts.PathDropped // package outcome does not know which interface the socket is bound to
		to, err := netip.ParseAddr(path.To)
		if err != nil || !isLost && !isBound && path.Outcome != facts.PathUnresolved {
			continue
		}
		hop, err := hostsys.NextHopTo(to, cmp.Or(c.Interface, to.Zone()))
		switch {
		case err != nil:
		case isLost && !hop.Known:
			path.Outcome = facts.PathOverflow
		case isBound && hop.Unanswered:
			path.Outcome = facts.PathUnresolved
		case !isLost && hop.Address != to.Unmap():
			path.Gateway = hop.Address.String()
		}
	}
}

// unanswered lists the outcomes of calls that lost all or some of their packets.
var unanswered = []facts.PathOutcome{facts.PathDropped, facts.PathSilent, facts.PathBlackhole}

// ethernet is the length of an Ethernet address in bytes. It excludes InfiniBand addresses, which
// begin with flags and a queue that differ for each asking node.
const ethernet = 6

// resolved combines the states of an entry with a usable address.
const resolved = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT

// ipOf returns a peer's address if it means the same on every link. Link-local addresses do not.
func ipOf(address string) netip.Addr {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.IsLinkLocalUnicast() && ip.Is6() {
		return netip.Addr{}
	}
	return ip.Unmap()
}
