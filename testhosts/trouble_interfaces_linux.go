// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
)

// RenameNIC gives eth0 another name, as a change of the firmware or of the slot may do.
func (n *Node) RenameNIC(name string) (Undo, error) {
	return func() error { return n.renameLink(name, "eth0") }, n.renameLink("eth0", name)
}

func (n *Node) renameLink(from, to string) error {
	return n.link(from, func(link netlink.Link) error {
		// Kernels before 6.2 rename an interface only while it is down. Setting an interface down
		// deletes its neighbour entries.
		err := errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, to), netlink.LinkSetUp(link))
		if err != nil {
			return fmt.Errorf("%s: rename %s to %s: %w", n.Name, from, to, err)
		}
		return n.addNeighbours(link)
	})
}

// AddDocker0 adds the bridge of an idle Docker daemon, with its usual address 172.17.0.1.
func (n *Node) AddDocker0() (Undo, error) {
	docker0 := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "docker0"}}
	return n.addLink(docker0, "172.17.0.1/16")
}

// AddDocker0First does the same as AddDocker0, but docker0 comes before eth0 in the kernel's order.
// This happens if the network driver is loaded again. 172.17.0.1 is then the first address that
// hostname -I prints. Settings of eth0 are lost.
func (n *Node) AddDocker0First() (Undo, error) {
	return n.precedingEth0(n.AddDocker0())
}

// NIC is an interface in addition to eth0.
type NIC struct {
	Name   string // at most 15 bytes, for example mgmt0 or tailscale0
	Prefix string // address with the prefix length, such as 10.78.1.3/16

	// Network is the name of the interface's segment. Interfaces with the same Network on several
	// nodes share a segment. "" means a private segment: the interface is up and has carrier, but
	// reaches no other node.
	Network string

	// First puts the interface before eth0 in the kernel's order, with the side effect that
	// AddDocker0First describes.
	First bool
}

// AddNIC adds an interface to the node.
func (n *Node) AddNIC(nic NIC) (Undo, error) {
	undo, err := n.addLink(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: nic.Name},
		PeerName:  "nic%d", // the kernel fills in the number
		// The PID is the one in this machine's process table, although this thread is in another
		// network namespace.
		PeerNamespace: netlink.NsPid(n.cluster.sw.pid),
	}, nic.Prefix)
	if err != nil {
		return nil, err
	}
	if err := n.plugIn(nic); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: plug in %s: %w", n.Name, nic.Name, err), undo())
	}
	if nic.First {
		return n.precedingEth0(undo, nil)
	}
	return undo, nil
}

// plugIn brings up the switch's end of an interface. If the interface has a Network, plugIn first
// connects this end to it.
func (n *Node) plugIn(nic NIC) error {
	var port int
	err := n.link(nic.Name, func(link netlink.Link) error {
		port = link.Attrs().ParentIndex
		return nil
	})
	if err != nil {
		return err
	}
	return n.cluster.sw.insideNetwork(func() error {
		link, err := netlink.LinkByIndex(port)
		if err != nil {
			return err
		}
		if nic.Network != "" {
			bridge, err := bridgeNamed(nic.Network)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetMaster(link, bridge); err != nil {
				return err
			}
		}
		return errors.Join(netlink.LinkSetUp(link), untilUp(port))
	})
}

// upTime is the maximum time that an interface may take to come up.
const upTime = 10 * time.Second

// untilUp waits until the kernel reports that both ends of an interface are up. This takes up to a
// second, or longer on a busy machine. The bridge forwards nothing until both ends are up.
func untilUp(port int) error {
	for end := time.Now().Add(upTime); ; time.Sleep(5 * time.Millisecond) {
		link, err := netlink.LinkByIndex(port)
		switch {
		case err != nil:
			return err
		case link.Attrs().OperState == netlink.OperUp:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s is not up after %s", link.Attrs().Name, upTime)
		}
	}
}

// addLink adds an interface with an address and brings the interface up.
func (n *Node) addLink(link netlink.Link, prefix string) (Undo, error) {
	undo := func() error {
		return n.insideNetwork(func() error { return netlink.LinkDel(link) })
	}
	var added bool
	err := n.insideNetwork(func() error {
		address, err := netlink.ParseAddr(prefix)
		if err != nil {
			return err
		}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		added = true
		return errors.Join(netlink.AddrAdd(link, address), netlink.LinkSetUp(link))
	})
	if err != nil {
		if added {
			err = errors.Join(err, undo())
		}
		return nil, fmt.Errorf("%s: %s: %w", n.Name, link.Attrs().Name, err)
	}
	return undo, nil
}

// precedingEth0 moves the interface that was just added before eth0 in the kernel's order. The
// kernel orders interfaces by their creation, so precedingEth0 creates eth0 again.
func (n *Node) precedingEth0(undo Undo, err error) (Undo, error) {
	if err != nil {
		return nil, err
	}
	if err := n.cluster.wire([]*Node{n}); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: plug eth0 in again: %w", n.Name, err), undo())
	}
	return undo, nil
}
