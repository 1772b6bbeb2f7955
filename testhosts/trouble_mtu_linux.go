package testhosts

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

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
func (n *Node) NarrowPeers(ctx context.Context, bytes int) (Undo, error) {
	large := fmt.Sprintf("%d:65535", bytes+1)
	return n.firewall(ctx, []string{"!", "-s", n.cluster.Head.Address, "-m", "length", "--length", large}, "DROP")
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
