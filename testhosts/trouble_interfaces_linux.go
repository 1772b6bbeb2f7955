// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
)

// RenameNIC gives eth0 another name, as other firmware or another slot does.
func (n *Node) RenameNIC(name string) (Undo, error) {
	return func() error { return n.renameLink(name, "eth0") }, n.renameLink("eth0", name)
}

func (n *Node) renameLink(from, to string) error {
	return n.link(from, func(link netlink.Link) error {
		// Kernels before 6.2 rename only what is down; going down loses the
		// neighbours.
		err := errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, to), netlink.LinkSetUp(link))
		if err != nil {
			return fmt.Errorf("%s: rename %s to %s: %w", n.Name, from, to, err)
		}
		return n.addNeighbours(link)
	})
}

// AddDocker0 adds the bridge of an idle Docker daemon, with the address it has
// on every machine: 172.17.0.1.
func (n *Node) AddDocker0() (Undo, error) {
	docker0 := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "docker0"}}
	return n.addLink(docker0, "172.17.0.1/16")
}

// AddDocker0First is AddDocker0 on a machine whose driver was loaded again
// since: docker0 precedes eth0 in the kernel's order, and 172.17.0.1 is the
// first address that hostname -I prints. What was set on eth0 is lost.
func (n *Node) AddDocker0First() (Undo, error) {
	return n.precedingEth0(n.AddDocker0())
}

// NIC is an interface beside eth0.
type NIC struct {
	Name   string // at most 15 bytes: mgmt0, tailscale0
	Prefix string // its address with the length of its network: 10.78.1.3/16

	// Network names the segment it is plugged into, which it shares with the
	// NICs of other nodes that name the same. "" is one it has for itself: it
	// is up, has carrier, and reaches nobody.
	Network string

	// First has it precede eth0 in the kernel's order, at the price that
	// AddDocker0First names.
	First bool
}

// AddNIC gives the node another interface.
func (n *Node) AddNIC(nic NIC) (Undo, error) {
	undo, err := n.addLink(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: nic.Name},
		PeerName:  "nic%d", // the kernel counts
		// The process is numbered as this machine does, whoever's network we are in.
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

// plugIn brings up the switch's end of an interface, on its network if it has
// one.
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

// upTime is how long an interface may take until it is up.
const upTime = 10 * time.Second

// untilUp waits for the kernel, which takes up to a second and longer on a busy machine to
// see that both ends of an interface are up: before, its bridge forwards nothing.
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

// addLink adds an interface with an address and brings it up.
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

// precedingEth0 puts what was just added before eth0 in the kernel's order. The
// order is that of creation and cannot be changed, so eth0 is made anew.
func (n *Node) precedingEth0(undo Undo, err error) (Undo, error) {
	if err != nil {
		return nil, err
	}
	if err := n.cluster.wire([]*Node{n}); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: plug eth0 in again: %w", n.Name, err), undo())
	}
	return undo, nil
}
