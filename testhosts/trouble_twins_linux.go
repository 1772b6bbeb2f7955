// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// twinMAC is the MAC address of a machine outside of the fleet.
var twinMAC = net.HardwareAddr{0x02, 0x66, 0, 0, 0, 0x01}

// Twin gives the node's address also to a machine outside of the fleet. That machine is the switch,
// which listens on no port. Every second other node sends its packets to the MAC address of that
// machine.
func (n *Node) Twin() (Undo, error) {
	err := n.cluster.sw.link(bridgeName, func(bridge netlink.Link) error {
		return errors.Join(netlink.LinkSetHardwareAddr(bridge, twinMAC), netlink.AddrAdd(bridge, &netlink.Addr{IPNet: n.prefix()}))
	})
	for i, peer := range n.Peers() {
		if i%2 == 0 && err == nil {
			err = n.knownAs(twinMAC, peer)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: a twin of it: %w", n.Name, err), n.endTwin())
	}
	return n.endTwin, nil
}

// endTwin removes the address from every other machine.
func (n *Node) endTwin() error {
	var had bool
	err := n.cluster.sw.link(bridgeName, func(bridge netlink.Link) error {
		err := netlink.AddrDel(bridge, &netlink.Addr{IPNet: n.prefix()})
		if had = err == nil; errors.Is(err, unix.EADDRNOTAVAIL) {
			err = nil
		}
		return err
	})
	for _, peer := range n.Peers() {
		if had && !peer.dead() {
			err = errors.Join(err, n.knownAs(n.mac(), peer))
		}
	}
	return err
}

// TakeAddress gives the node the address of another node in addition to its own.
func (n *Node) TakeAddress(of *Node) (Undo, error) {
	set := func(how func(netlink.Link, *netlink.Addr) error) error {
		err := n.link("eth0", func(eth0 netlink.Link) error { return how(eth0, &netlink.Addr{IPNet: of.prefix()}) })
		if err != nil {
			return fmt.Errorf("%s: the address of %s: %w", n.Name, of.Name, err)
		}
		return nil
	}
	return func() error { return set(netlink.AddrDel) }, set(netlink.AddrAdd)
}

func (n *Node) prefix() *net.IPNet {
	return &net.IPNet{IP: net.ParseIP(n.Address), Mask: net.CIDRMask(16, 32)}
}

// knownAs makes a peer send packets for this node to the given MAC address.
func (n *Node) knownAs(mac net.HardwareAddr, peer *Node) error {
	return peer.link("eth0", func(eth0 netlink.Link) error {
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex: eth0.Attrs().Index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT,
			IP: net.ParseIP(n.Address), HardwareAddr: mac,
		})
	})
}

// forgottenBy makes a peer look up the node's MAC address again before it sends the next packet.
func (n *Node) forgottenBy(peer *Node) error {
	return peer.link("eth0", func(eth0 netlink.Link) error {
		err := netlink.NeighDel(&netlink.Neigh{LinkIndex: eth0.Attrs().Index, Family: netlink.FAMILY_V4, IP: net.ParseIP(n.Address)})
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	})
}
