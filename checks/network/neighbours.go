// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

var NeighbourTable = checks.Check{
	ID:       "neighbour-table",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Run:      judgeNeighbours,
}

func judgeNeighbours(view checks.View) (findings []checks.Finding) {
	if len(view.All) == 1 {
		return checks.Skipped("a single node has no peers")
	}
	s := newSubnets(view)
	lost := map[string]int{}
	for _, node := range lostCalls(view) {
		lost[node]++
	}
	var crowded []crowd
	for _, node := range view.Nodes {
		c, notKnown := s.crowdOf(node)
		c.lost = lost[node.Name]
		switch c.weigh(); {
		case c.verdict != "":
			crowded = append(crowded, c)
		case notKnown != "":
			findings = append(findings, checks.UnknownFor(node, notKnown))
		}
	}
	alike := func(c crowd) string {
		return fmt.Sprint(c.verdict, c.says, c.table.GCThresh3, c.enough(), c.node.Host != nil && c.node.Host.Container != "")
	}
	for _, crowds := range text.GroupBy(crowded, alike) {
		findings = append(findings, tooMany(crowds.All))
	}
	return findings
}

// subnets holds the addresses that the nodes of a launch will use on their links, in ascending
// order.
type subnets struct {
	view      checks.View
	of        map[*facts.Node]string // the address of each node
	addresses []netip.Addr
	first     *facts.Node // the node to which all others connect, nil if unknown
}

func newSubnets(view checks.View) *subnets {
	s := &subnets{view: view, of: make(map[*facts.Node]string, len(view.All)), addresses: make([]netip.Addr, 0, len(view.All))}
	s.first, _ = names.NodeZero(view)
	choices := placementOf(view).choices
	for _, node := range view.Everywhere() {
		s.of[node] = addressOnLink(choices[node], node)
		if address, err := netip.ParseAddr(s.of[node]); err == nil {
			s.addresses = append(s.addresses, address.Unmap())
		}
	}
	slices.SortFunc(s.addresses, netip.Addr.Compare)
	return s
}

// addressOnLink returns the address on which a node's ranks will listen. If that address is
// unknown, it returns the address at which preflight reached the node.
func addressOnLink(choice nccl.Choice, node *facts.Node) string {
	switch {
	case node.Net == nil:
		return node.Address
	case choice.Address != "" && !names.IsLoopback(choice.Address): // nic-choice reports addresses that no other node can reach
		return choice.Address
	}
	return nccl.PeerAddress(node).Address
}

// on returns the number of addresses in a network. These addresses are adjacent in the sorted list.
func (s *subnets) on(network netip.Prefix) (count int) {
	from, _ := slices.BinarySearchFunc(s.addresses, network.Addr(), netip.Addr.Compare)
	isIn := func(address netip.Addr, _ struct{}) int {
		if network.Contains(address) {
			return -1
		}
		return 1
	}
	count, _ = slices.BinarySearchFunc(s.addresses[from:], struct{}{}, isIn)
	return count
}

// crowd holds the numbers of entries that must fit into a node's neighbour table.
type crowd struct {
	node     *facts.Node
	table    facts.NeighbourTable
	network  netip.Prefix
	device   string
	peers    int  // nodes of the launch on the network
	there    int  // current entries of the same interface
	besides  int  // current entries of other interfaces
	meetsAll bool // whether the ranks of the node will talk to all peers

	lost    int // calls of the mesh test that the full table lost
	verdict checks.Verdict
	says    string
}

// crowdOf returns the crowd of a node. If it is unknown, notKnown is the reason.
func (s *subnets) crowdOf(node *facts.Node) (c crowd, notKnown string) {
	c = crowd{node: node, meetsAll: !ranks.UsesNCCL(s.view) || node == s.first}
	held, network, known := names.HolderOf(node, s.of[node])
	if !known {
		return c, "net: the address of its ranks is unknown"
	}
	c.network, c.device = network, held.Name
	name := "ndisc_cache"
	if network.Addr().Is4() {
		name = "arp_cache"
	}
	at := slices.IndexFunc(node.Net.Neighbours, func(t facts.NeighbourTable) bool { return t.Name == name })
	if at < 0 {
		return c, "net: the kernel does not show its neighbour table"
	}
	c.table = node.Net.Neighbours[at]
	for device, entries := range c.table.Learned {
		if device == held.Name {
			c.there = entries
		} else {
			c.besides += entries
		}
	}
	if held.MAC != "" && !held.Loopback { // interfaces of any other kind use no neighbour table
		c.peers = max(0, s.on(network)-1)
	}
	return c, ""
}

// needed returns the smallest number of entries that the table needs. Current entries of the same
// interface may already be peers.
func (c crowd) needed() int { return max(c.peers, c.there) + c.besides }

// overflows returns how often the table had no room while the nodes connected to each other.
func (c crowd) overflows() (count int64) {
	for _, mesh := range []*facts.Mesh{c.node.Mesh, c.node.PeerMesh} {
		if mesh != nil {
			count += mesh.Overflows
		}
	}
	return count
}

// weigh sets the verdict. Above the second threshold, the kernel removes entries that were silent
// for five seconds. At the third threshold, it adds an entry only if it can remove another one.
//
// Source: neigh_alloc and neigh_forced_gc in net/core/neighbour.c, Linux 4.3 to 6.18.
func (c *crowd) weigh() {
	switch needed := c.needed(); {
	case c.lost > 0:
		c.verdict, c.says = checks.Fail, "the neighbour table overflowed when the nodes called each other: calls were lost"
	case c.table.GCThresh3 == 0: // the thresholds are unknown
	case needed > c.table.GCThresh3 && c.meetsAll:
		c.verdict, c.says = checks.Fail, "the neighbour table is too small for the peers that the ranks will call"
	case needed > c.table.GCThresh3:
		c.verdict, c.says = checks.Warn, "the neighbour table is smaller than the subnet; NCCL may get by with fewer peers"
	case c.overflows() > 0:
		c.verdict, c.says = checks.Warn, "the neighbour table overflowed when the nodes called each other; no call was lost"
	case needed > c.table.GCThresh2 && c.meetsAll:
		c.verdict, c.says = checks.Warn, "the neighbour table is nearly full: the kernel drops peers after 5 s of silence"
	}
}

// enough returns the first threshold that the fix sets. It is a power of two that has room for all
// peers and is greater than the threshold that was too small.
func (c crowd) enough() int {
	enough, needed := 1024, c.needed()
	if c.lost > 0 || c.overflows() > 0 {
		needed = max(needed, c.table.GCThresh3)
	}
	for enough < needed {
		enough *= 2
	}
	return enough
}

// tooMany returns the finding for nodes with the same problem. It describes the node with the most
// crowded table.
func tooMany(crowds []crowd) checks.Finding {
	worst := crowds[0]
	f := checks.Finding{Verdict: worst.verdict, Summary: worst.says}
	for _, c := range crowds {
		f.Nodes = append(f.Nodes, c.node.Name)
		if c.needed()+c.lost > worst.needed()+worst.lost {
			worst = c
		}
	}
	family := fix.Code("ipv4")
	if worst.network.IsValid() && worst.network.Addr().Is6() {
		family = fix.Code("ipv6")
	}
	count := func(n int) string { return humanize.Comma(int64(n)) }
	plural := func(n int, of string) string { return count(n) + " " + english.PluralWord(n, of, "") }
	f.Got = fmt.Sprintf("gc_thresh3 is %[2]s on %[1]s", worst.node.Name, count(worst.table.GCThresh3))
	if worst.network.IsValid() {
		f.Got += fmt.Sprintf("; %s (%s) has %s", worst.network, worst.device, plural(worst.peers, "peer"))
	}
	if worst.there > worst.peers {
		f.Got += fmt.Sprintf(", and %s in the table now", plural(worst.there, "neighbour"))
	}
	if worst.besides > 0 {
		f.Got += fmt.Sprintf("; %s on other interfaces", plural(worst.besides, "neighbour"))
	}
	if overflows := worst.overflows(); overflows > 0 {
		f.Got += fmt.Sprintf("; no room %s during the calls, %s lost", plural(int(overflows), "time"), plural(worst.lost, "call"))
	}
	enough := int64(worst.enough())
	f.Want = fmt.Sprintf("gc_thresh1 of %s or more, gc_thresh2 twice and gc_thresh3 four times that", count(int(enough)))
	setting := func(number, times int64) fix.Arg {
		return fix.Code("net.%s.neigh.default.gc_thresh%s=%s", family, fix.Number(number), fix.Number(enough*times))
	}
	f.Remedy = []fix.Command{remedy.OnMachine(worst.node, fix.On("sudo sysctl -w %s %s %s | sudo tee /etc/sysctl.d/90-neighbours.conf",
		setting(3, 4), setting(2, 2), setting(1, 1)))}
	if f.Verdict == checks.Warn {
		f.WouldSee = "nothing, by chance; with more peers at a time: No route to host, or a hang"
	}
	return f
}
