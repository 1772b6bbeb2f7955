// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"
)

// Undo reverts a fault and restores the node's earlier state. Do not use it if the fault returned
// an error.
type Undo func() error

// undos holds the Undos of the parts of one fault.
type undos []Undo

func (all undos) undo() (err error) {
	for _, u := range all {
		err = errors.Join(err, u())
	}
	return err
}

// Ephemeral is the port range from which Linux chooses a port if a program requests none
// (net.ipv4.ip_local_port_range). NCCL and gloo listen on such ports.
const Ephemeral = "32768:60999"

// In the following functions, ports are the TCP ports of the node ("22", "1024:65535") to which
// other machines open connections. Connections that the node itself opens, even to its own address,
// are not affected, because host firewalls track connections and trust the loopback interface.

// Drop makes the node's firewall drop connections to the given ports, or all incoming packets if no
// ports are given. Senders get no answer.
func (n *Node) Drop(ports ...string) (Undo, error) {
	return n.firewall(connections(ports), "DROP")
}

// DropFrom makes the node's firewall drop connections from peer to the given ports, or to all ports
// if none are given. Connections from the node to peer work, as with a one-way firewall.
func (n *Node) DropFrom(peer *Node, ports ...string) (Undo, error) {
	if len(ports) == 0 {
		ports = allPorts
	}
	return n.firewall(append([]string{"-s", peer.Address}, connections(ports)...), "DROP")
}

// Reject makes the node's firewall answer connections to the given ports, or to all ports if none
// are given, with a reset. Clients see the same as if no process listened.
func (n *Node) Reject(ports ...string) (Undo, error) {
	if len(ports) == 0 {
		ports = allPorts // only TCP connections can be reset
	}
	return n.firewall(connections(ports), "REJECT", "--reject-with", "tcp-reset")
}

// Prohibit makes the node's firewall answer connections to the given ports, or all incoming packets
// if no ports are given, with "host administratively prohibited". firewalld's default rules do the
// same. Clients see "no route to host".
func (n *Node) Prohibit(ports ...string) (Undo, error) {
	return n.firewall(connections(ports), "REJECT", "--reject-with", "icmp-host-prohibited")
}

// ResetAfterAccept accepts connections to the given TCP ports and resets a connection when the
// client sends its first byte. Firewalls that inspect data behave like this, and so do proxies
// whose server is dead. The node itself does not see the connection.
func (n *Node) ResetAfterAccept(ports ...string) (Undo, error) {
	spoken := []string{"-p", "tcp", "--tcp-flags", "PSH", "PSH", "-m", "conntrack", "--ctdir", "ORIGINAL"}
	return n.firewall(append(spoken, toPorts(ports)...), "REJECT", "--reject-with", "tcp-reset")
}

// CutAfter makes the node's firewall drop the packets of a connection after the given number of
// bytes, counted in both directions. Connections of ssh are not affected. Devices that inspect or
// count traffic behave like this. Short connections are not affected.
func (n *Node) CutAfter(bytes int) (Undo, error) {
	return n.firewall([]string{
		"-p", "tcp", "!", "--dport", "22", "-m", "connbytes",
		"--connbytes", fmt.Sprintf("%d:", bytes), "--connbytes-dir", "both", "--connbytes-mode", "bytes",
	}, "DROP")
}

// Unroute makes the node's firewall answer all packets with "host unreachable", as a router does if
// a machine is switched off. Linux reports this error only after the second answer, about a second
// later.
func (n *Node) Unroute() (Undo, error) {
	return n.firewall(nil, "REJECT", "--reject-with", "icmp-host-unreachable")
}

var allPorts = []string{"0:65535"}

// connections returns the iptables match for packets that open a connection to one of the ports, or
// for all packets if there are no ports.
func connections(ports []string) []string {
	if len(ports) == 0 {
		return nil
	}
	return append([]string{"-p", "tcp", "--syn"}, toPorts(ports)...)
}

func toPorts(ports []string) []string {
	return []string{"-m", "multiport", "--dports", strings.Join(ports, ",")}
}

// firewall sends matching packets from other machines to a target. The rule becomes the first rule
// of its chain.
func (n *Node) firewall(match []string, target ...string) (Undo, error) {
	rule := append([]string{"INPUT", "!", "-i", "lo"}, match...)
	rule = append(append(rule, "-j"), target...)
	set := func(how string) error {
		_, err := n.Run(context.Background(), append([]string{"iptables", "-w", how}, rule...)...)
		return err
	}
	return func() error { return set("-D") }, set("-I")
}

// LoseRoutes removes all routes of the node except the route to the launching machine. Connections
// from the node to other nodes fail at once with "network is unreachable". Connections from other
// nodes get no answer.
func (n *Node) LoseRoutes() (Undo, error) {
	var had []netlink.Route
	var toHead *netlink.Route
	err := n.link("eth0", func(eth0 netlink.Link) (err error) {
		if had, err = netlink.RouteList(eth0, netlink.FAMILY_V4); err != nil {
			return err
		}
		toHead = &netlink.Route{
			LinkIndex: eth0.Attrs().Index, Scope: netlink.SCOPE_LINK,
			Dst: &net.IPNet{IP: net.ParseIP(n.cluster.Head.Address), Mask: net.CIDRMask(32, 32)},
		}
		if err := netlink.RouteAdd(toHead); err != nil {
			return err
		}
		for _, route := range had {
			if err := netlink.RouteDel(&route); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: take the routes away: %w", n.Name, err)
	}
	return func() error {
		return n.insideNetwork(func() error {
			for _, route := range had {
				if err := netlink.RouteAdd(&route); err != nil {
					return err
				}
			}
			return netlink.RouteDel(toHead)
		})
	}, nil
}

// IgnoreARP makes the node answer no ARP request for its address, as a wrong arp_ignore setting
// does. The other nodes forget the node's MAC address, but the launching machine keeps it.
func (n *Node) IgnoreARP() (Undo, error) {
	set := func(value string) error {
		_, err := n.Run(context.Background(), "sysctl", "-qw", "net.ipv4.conf.eth0.arp_ignore="+value)
		return err
	}
	undo := func() error {
		err := set("0")
		for _, peer := range n.Peers() {
			if !peer.dead() {
				err = errors.Join(err, n.knownAs(n.mac(), peer))
			}
		}
		return err
	}
	err := set("8") // 8 means "do not reply for all local addresses" (Documentation/networking/ip-sysctl.rst)
	for _, peer := range n.Peers() {
		err = errors.Join(err, n.forgottenBy(peer))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: ignore ARP: %w", n.Name, err), undo())
	}
	return undo, nil
}

// SetMTU sets the MTU of the node's eth0, in bytes. The other nodes keep their MTU.
func (n *Node) SetMTU(bytes int) (Undo, error) { return n.setMTU(n, "eth0", bytes) }

// NarrowPath makes the network drop larger packets than the given number of bytes on the way to and
// from the node, while eth0 keeps its MTU. Larger packets are dropped silently in both directions.
func (n *Node) NarrowPath(bytes int) (Undo, error) {
	// A veth passes on data that TCP has not yet segmented as one large piece, regardless of the
	// MTU. So every eth0 accepts only single segments until Undo.
	if err := n.cluster.segments(1); err != nil {
		return nil, err
	}
	widen, err := n.setMTU(n.cluster.sw, n.port(), bytes)
	if err != nil {
		return nil, errors.Join(err, n.cluster.segments(defaultSegments))
	}
	return func() error { return errors.Join(widen(), n.cluster.segments(defaultSegments)) }, nil
}

// NarrowPeers drops packets from other nodes that are larger than the given number of bytes.
// Packets from the launching machine pass, so that it can log in.
func (n *Node) NarrowPeers(bytes int) (Undo, error) {
	large := fmt.Sprintf("%d:65535", bytes+1)
	return n.firewall([]string{"!", "-s", n.cluster.Head.Address, "-m", "length", "--length", large}, "DROP")
}

// defaultSegments is the kernel's GSO_MAX_SEGS.
const defaultSegments = 65535

// segments sets the number of TCP segments that every eth0 accepts in one piece.
func (c *Cluster) segments(most int) error {
	for _, n := range c.Machines() {
		err := n.link("eth0", func(eth0 netlink.Link) error { return netlink.LinkSetGSOMaxSegs(eth0, most) })
		if err != nil {
			return fmt.Errorf("%s: segments of eth0: %w", n.Name, err)
		}
	}
	return nil
}

func (n *Node) setMTU(at *Node, name string, bytes int) (Undo, error) {
	var was int
	set := func(mtu int) error {
		return at.link(name, func(link netlink.Link) error {
			was = link.Attrs().MTU
			return netlink.LinkSetMTU(link, mtu)
		})
	}
	if err := set(bytes); err != nil {
		return nil, fmt.Errorf("%s: mtu %d: %w", n.Name, bytes, err)
	}
	before := was
	return func() error { return set(before) }, nil
}
