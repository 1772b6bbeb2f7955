package testhosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink"
)

// Undo takes a trouble back and leaves the node as it was before.
type Undo func() error

// Drop has the node's firewall throw away what arrives for these TCP ports
// ("22", "1024:65535"), or everything when none is named. Senders wait.
func (n *Node) Drop(ctx context.Context, ports ...string) (Undo, error) {
	return n.firewall(ctx, ports, "DROP")
}

// Reject has the node's firewall answer connections to these TCP ports, or to
// all, with a reset, as if nothing listened.
func (n *Node) Reject(ctx context.Context, ports ...string) (Undo, error) {
	if len(ports) == 0 {
		ports = []string{"0:65535"} // only TCP can be reset
	}
	return n.firewall(ctx, ports, "REJECT", "--reject-with", "tcp-reset")
}

// Unroute has everything that is sent to the node answered with "host
// unreachable", as a router does for a machine that is switched off. Linux
// believes it when it hears it twice, after a second.
func (n *Node) Unroute(ctx context.Context) (Undo, error) {
	return n.firewall(ctx, nil, "REJECT", "--reject-with", "icmp-host-unreachable")
}

// DropFrom throws away the connections that peer starts to this node. Those
// this node starts to peer work: the one-way firewall.
func (n *Node) DropFrom(ctx context.Context, peer *Node) (Undo, error) {
	return n.rule(ctx, "INPUT", "-s", peer.Address, "-p", "tcp", "--syn", "-j", "DROP")
}

func (n *Node) firewall(ctx context.Context, ports []string, target ...string) (Undo, error) {
	match := []string{"INPUT", "-i", "eth0"}
	if len(ports) > 0 {
		match = append(match, "-p", "tcp", "-m", "multiport", "--dports", strings.Join(ports, ","))
	}
	return n.rule(ctx, append(append(match, "-j"), target...)...)
}

// rule puts a rule at the head of a chain: chain, then what iptables calls the
// rule specification.
func (n *Node) rule(ctx context.Context, rule ...string) (Undo, error) {
	if _, err := n.Run(ctx, append([]string{"iptables", "-w", "-I"}, rule...)...); err != nil {
		return nil, err
	}
	return func() error {
		_, err := n.Run(context.Background(), append([]string{"iptables", "-w", "-D"}, rule...)...)
		return err
	}, nil
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

// defaultSegments is the kernel's GSO_MAX_SEGS.
const defaultSegments = 65535

// segments sets how many TCP segments an eth0 takes in one piece.
func (c *Cluster) segments(most int) error {
	for _, n := range c.Machines() {
		err := n.insideNetwork(func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.LinkSetGSOMaxSegs(link, most)
		})
		if err != nil {
			return fmt.Errorf("%s: segments of eth0: %w", n.Name, err)
		}
	}
	return nil
}

// setMTU sets the MTU of an interface in the network of at.
func (n *Node) setMTU(at *Node, name string, bytes int) (Undo, error) {
	var was int
	set := func(mtu int) error {
		return at.insideNetwork(func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
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

// RenameNIC gives eth0 another name, as other firmware or another slot does.
func (n *Node) RenameNIC(name string) (Undo, error) {
	if err := n.renameLink("eth0", name); err != nil {
		return nil, err
	}
	return func() error { return n.renameLink(name, "eth0") }, nil
}

func (n *Node) renameLink(from, to string) error {
	return n.insideNetwork(func() error {
		link, err := netlink.LinkByName(from)
		if err != nil {
			return err
		}
		// Kernels before 6.2 rename only what is down; going down loses the
		// neighbours.
		err = errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, to), netlink.LinkSetUp(link))
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
	err := n.insideNetwork(func() error {
		address := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(172, 17, 0, 1), Mask: net.CIDRMask(16, 32)}}
		if err := netlink.LinkAdd(docker0); err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(docker0, address), netlink.LinkSetUp(docker0))
	})
	if err != nil {
		return nil, fmt.Errorf("%s: docker0: %w", n.Name, err)
	}
	return func() error {
		return n.insideNetwork(func() error { return netlink.LinkDel(docker0) })
	}, nil
}
