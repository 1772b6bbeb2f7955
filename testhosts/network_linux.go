// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const bridgeName = "br0"

func (c *Cluster) wire(machines []*Node) error {
	err := c.sw.insideNetwork(func() error {
		bridge, err := bridgeNamed(bridgeName)
		if err != nil {
			return fmt.Errorf("switch: %w", err)
		}
		for _, n := range machines {
			if err := n.plugInto(bridge); err != nil {
				return fmt.Errorf("connect %s: %w", n.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range machines {
		if err := n.insideNetwork(n.configureNetwork); err != nil {
			return fmt.Errorf("configure the network of %s: %w", n.Name, err)
		}
	}
	return nil
}

// bridgeNamed returns the bridge of a network segment, and creates the bridge if needed. Call it in
// the switch's namespace.
func bridgeNamed(name string) (netlink.Link, error) {
	bridge, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		bridge = &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
		if err = netlink.LinkAdd(bridge); err == nil {
			err = netlink.LinkSetUp(bridge)
		}
	}
	return bridge, err
}

// plugInto gives the node an eth0 whose other end is a port of the bridge. Call it in the switch's
// namespace.
func (n *Node) plugInto(bridge netlink.Link) error {
	// The port of a restarted node may still exist, because the kernel needs time to remove the
	// namespaces of dead processes.
	if old, err := netlink.LinkByName(n.port()); err == nil {
		if err := netlink.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) { // ENODEV means that the kernel has already removed the port
			return err
		}
	}
	port := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: n.port(), MasterIndex: bridge.Attrs().Index},
		PeerName:         "eth0",
		PeerHardwareAddr: n.mac(),
		PeerNamespace:    netlink.NsPid(n.pid),
	}
	if err := netlink.LinkAdd(port); err != nil {
		return err
	}
	return netlink.LinkSetUp(port)
}

func (n *Node) configureNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	eth0, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(eth0, &netlink.Addr{IPNet: n.prefix()}); err != nil {
		return err
	}
	for _, link := range []netlink.Link{lo, eth0} {
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
	}
	return n.addNeighbours(eth0)
}

// addNeighbours adds permanent entries for the hardware addresses of all other machines. The kernel
// has one table of learned neighbours for all namespaces, with 1,024 entries, which a mesh of 33
// nodes would overflow. Permanent entries do not count.
func (n *Node) addNeighbours(eth0 netlink.Link) error {
	for _, peer := range n.cluster.Machines() {
		if peer == n {
			continue
		}
		err := netlink.NeighSet(&netlink.Neigh{
			LinkIndex: eth0.Attrs().Index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT,
			IP: net.ParseIP(peer.Address), HardwareAddr: peer.mac(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mac returns the hardware address of the node's eth0. It is locally administered and derived from
// the IP address.
func (n *Node) mac() net.HardwareAddr {
	ip := net.ParseIP(n.Address).To4()
	return net.HardwareAddr{0x02, 0x4d, ip[0], ip[1], ip[2], ip[3]}
}

// port returns the name of the switch's end of the node's cable.
func (n *Node) port() string {
	if n == n.cluster.Head {
		return "head" // the full name may exceed the 15 characters of an interface name
	}
	return n.Name
}

// link calls f with an interface of the node, in the node's network namespace.
func (n *Node) link(name string, f func(netlink.Link) error) error {
	return n.insideNetwork(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return f(link)
	})
}

// insideNetwork calls f in the node's network namespace but not in its other namespaces. It also
// works for the switch, which has only a network namespace.
func (n *Node) insideNetwork(f func() error) error {
	return onThreadOfItsOwn(func() error {
		if err := unix.Setns(n.pidfd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network of %s: %w", n.Name, err)
		}
		return f()
	})
}
