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

// hardware is the Ethernet address that the kernel has learned, or was told, of each peer
// whose call failed: the calls have just asked for it. What it cannot say is left out, for a
// peer behind a router is nobody's neighbour.
func (c *calling) hardware(failed []facts.Path) {
	if len(failed) == 0 {
		return
	}
	link, _ := net.InterfaceByName(c.Interface) // nil for any
	learned, err := netlink.NeighList(0, netlink.FAMILY_ALL)
	if err != nil && len(learned) == 0 { // one that was interrupted is the best there is
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
	holders := map[string]int{} // peers by MAC
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

// overflows is how often there was no room in the table of neighbours that the peers belong
// into, 0 where the kernel does not count it.
func (c *calling) overflows() int64 {
	tables, _ := hostsys.NeighbourTables() // nil where it does not tell
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

// nextHops says of calls without an answer what the table of neighbours has to do with it. A
// connection that finds no room there for the peer is told nothing: what it sends is thrown
// away, and it tries again until its time is up. Who is not in the table by then, while
// others were refused, was refused as well. The loopback interface has an entry, too, and is
// the first that a full table throws out: a node then cannot even call itself.
//
// Source: ip_finish_output2 in net/ipv4/ip_output.c, whose ENOBUFS tcp_connect leaves aside
// (net/ipv4/tcp_output.c); neigh_forced_gc in net/core/neighbour.c; Linux 6.18.
func (c *calling) nextHops(failed []facts.Path, hasOverflown bool) {
	for i := range failed {
		path := &failed[i]
		isLost := hasOverflown && slices.Contains(unanswered, path.Outcome)
		isBound := c.Interface != "" && path.Outcome == facts.PathDropped // outcome knows no interface
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

// unanswered are the outcomes of calls whose packets, or some of them, went nowhere.
var unanswered = []facts.PathOutcome{facts.PathDropped, facts.PathSilent, facts.PathBlackhole}

// ethernet is the length of an Ethernet address. Those of InfiniBand begin with flags and a
// queue that are another for each who asks.
const ethernet = 6

// resolved are the states of an entry that says something.
const resolved = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT

// ipOf is the address of a peer that is the same on every link, which link-local ones are not.
func ipOf(address string) netip.Addr {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.IsLinkLocalUnicast() && ip.Is6() {
		return netip.Addr{}
	}
	return ip.Unmap()
}
