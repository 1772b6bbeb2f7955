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

// Undo takes a fault back and leaves the node as it was before. It is of no use beside an
// error.
type Undo func() error

// undos are of faults that one is made of.
type undos []Undo

func (all undos) undo() (err error) {
	for _, u := range all {
		err = errors.Join(err, u())
	}
	return err
}

// Ephemeral is the range of ports that Linux gives to sockets which ask for
// none (net.ipv4.ip_local_port_range), as NCCL's and gloo's listeners do.
const Ephemeral = "32768:60999"

// Ports below name what a firewall is about: connections that others start to
// these TCP ports of the node ("22", "1024:65535"). What the node starts itself
// passes, as does what it says to its own address: host firewalls keep track of
// connections and trust the loopback interface.

// Drop has the node's firewall throw connections away, or all that arrives when
// no ports are named. Senders wait.
func (n *Node) Drop(ports ...string) (Undo, error) {
	return n.firewall(connections(ports), "DROP")
}

// DropFrom throws away the connections that peer starts to this node, to all
// ports when none is named. Those this node starts to peer work: the one-way
// firewall.
func (n *Node) DropFrom(peer *Node, ports ...string) (Undo, error) {
	if len(ports) == 0 {
		ports = allPorts
	}
	return n.firewall(append([]string{"-s", peer.Address}, connections(ports)...), "DROP")
}

// Reject has the node's firewall answer connections, to all ports when none is
// named, with a reset, as if nothing listened.
func (n *Node) Reject(ports ...string) (Undo, error) {
	if len(ports) == 0 {
		ports = allPorts // only TCP can be reset
	}
	return n.firewall(connections(ports), "REJECT", "--reject-with", "tcp-reset")
}

// Prohibit has the node's firewall answer connections, or all that arrives when
// no ports are named, with "host administratively prohibited", as firewalld's
// default rules do. Callers see that there is no route to the host.
func (n *Node) Prohibit(ports ...string) (Undo, error) {
	return n.firewall(connections(ports), "REJECT", "--reject-with", "icmp-host-prohibited")
}

// ResetAfterAccept has the node accept connections to these TCP ports and reset
// them at the first byte the caller sends, as firewalls do that look into what
// passes, and proxies whose server is dead. The node itself sees nothing.
func (n *Node) ResetAfterAccept(ports ...string) (Undo, error) {
	spoken := []string{"-p", "tcp", "--tcp-flags", "PSH", "PSH", "-m", "conntrack", "--ctdir", "ORIGINAL"}
	return n.firewall(append(spoken, toPorts(ports)...), "REJECT", "--reject-with", "tcp-reset")
}

// CutAfter has the node's firewall throw away what of a connection comes after so many bytes of
// both directions together, ssh's excepted: as something on the way does that looks into what
// passes, or counts it. Whatever is short passes.
func (n *Node) CutAfter(bytes int) (Undo, error) {
	return n.firewall([]string{
		"-p", "tcp", "!", "--dport", "22", "-m", "connbytes",
		"--connbytes", fmt.Sprintf("%d:", bytes), "--connbytes-dir", "both", "--connbytes-mode", "bytes",
	}, "DROP")
}

// Unroute has everything that is sent to the node answered with "host
// unreachable", as a router does for a machine that is switched off. Linux
// believes it the second time, after a second.
func (n *Node) Unroute() (Undo, error) {
	return n.firewall(nil, "REJECT", "--reject-with", "icmp-host-unreachable")
}

var allPorts = []string{"0:65535"}

// connections is the match of a packet that starts a connection to one of the
// ports, of every packet when there are none.
func connections(ports []string) []string {
	if len(ports) == 0 {
		return nil
	}
	return append([]string{"-p", "tcp", "--syn"}, toPorts(ports)...)
}

func toPorts(ports []string) []string {
	return []string{"-m", "multiport", "--dports", strings.Join(ports, ",")}
}

// firewall has what arrives from other machines and matches go to a target. The
// rule comes first in its chain.
func (n *Node) firewall(match []string, target ...string) (Undo, error) {
	rule := append([]string{"INPUT", "!", "-i", "lo"}, match...)
	rule = append(append(rule, "-j"), target...)
	set := func(how string) error {
		_, err := n.Run(context.Background(), append([]string{"iptables", "-w", how}, rule...)...)
		return err
	}
	return func() error { return set("-D") }, set("-I")
}

// LoseRoutes leaves the node no route but the one to the head: its own calls to
// the other nodes fail at once with "network is unreachable", and theirs get no
// answer.
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

// IgnoreARP has the node answer nobody who asks for its address, as arp_ignore does that was
// meant for another interface, and the other nodes forget where it is. The head knows.
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
	err := set("8") // "do not reply for all local addresses": Documentation/networking/ip-sysctl.rst
	for _, peer := range n.Peers() {
		err = errors.Join(err, n.forgottenBy(peer))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: ignore ARP: %w", n.Name, err), undo())
	}
	return undo, nil
}

// SetMTU gives eth0 another MTU than the other nodes have, in bytes.
func (n *Node) SetMTU(bytes int) (Undo, error) { return n.setMTU(n, "eth0", bytes) }

// NarrowPath makes the cable of the node carry packets of at most this many
// bytes, while eth0 still believes in its own MTU: larger ones vanish without
// a word, in both directions.
func (n *Node) NarrowPath(bytes int) (Undo, error) {
	// A veth hands over what TCP means to have segmented in one piece, and
	// such a piece passes every MTU. So nobody may make any meanwhile.
	if err := n.cluster.segments(1); err != nil {
		return nil, err
	}
	widen, err := n.setMTU(n.cluster.sw, n.port(), bytes)
	if err != nil {
		return nil, errors.Join(err, n.cluster.segments(defaultSegments))
	}
	return func() error { return errors.Join(widen(), n.cluster.segments(defaultSegments)) }, nil
}

// NarrowPeers has packets of more than this many bytes vanish when they come
// from another node. The head's pass, so that it can log in and look around.
func (n *Node) NarrowPeers(bytes int) (Undo, error) {
	large := fmt.Sprintf("%d:65535", bytes+1)
	return n.firewall([]string{"!", "-s", n.cluster.Head.Address, "-m", "length", "--length", large}, "DROP")
}

// defaultSegments is the kernel's GSO_MAX_SEGS.
const defaultSegments = 65535

// segments sets how many TCP segments an eth0 takes in one piece.
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
