package testhosts

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// LoseRoutes leaves the node no route but the one to the head: its own calls to
// the other nodes fail at once with "network is unreachable", and theirs get no
// answer.
func (n *Node) LoseRoutes() (Undo, error) {
	var had []netlink.Route
	var toHead *netlink.Route
	err := n.insideNetwork(func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
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

// Misroute gives the node a route to peer that leads nowhere, of a kind that
// ip-route(8) knows: unreachable ("no route to host"), prohibit ("permission
// denied") or blackhole ("invalid argument"). What peer starts gets no answer.
func (n *Node) Misroute(ctx context.Context, kind string, peer *Node) (Undo, error) {
	if _, err := n.Run(ctx, "ip", "route", "add", kind, peer.Address); err != nil {
		return nil, err
	}
	return func() error {
		_, err := n.Run(context.Background(), "ip", "route", "del", kind, peer.Address)
		return err
	}, nil
}
