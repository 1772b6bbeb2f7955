package testhosts

import (
	"context"
	"strings"
)

// Undo takes a trouble back and leaves the node as it was before.
type Undo func() error

// Ephemeral is the range of ports that Linux gives to sockets which ask for
// none (net.ipv4.ip_local_port_range), as NCCL's and gloo's listeners do.
const Ephemeral = "32768:60999"

// Ports below name what a firewall is about: connections that others start to
// these TCP ports of the node ("22", "1024:65535"). What the node starts itself
// passes, as does what it says to its own address: host firewalls keep track of
// connections and trust the loopback interface.

// Drop has the node's firewall throw connections away, or all that arrives when
// no ports are named. Senders wait.
func (n *Node) Drop(ctx context.Context, ports ...string) (Undo, error) {
	return n.firewall(ctx, connections(ports), "DROP")
}

// DropFrom throws away the connections that peer starts to this node, to all
// ports when none is named. Those this node starts to peer work: the one-way
// firewall.
func (n *Node) DropFrom(ctx context.Context, peer *Node, ports ...string) (Undo, error) {
	if len(ports) == 0 {
		ports = allPorts
	}
	return n.firewall(ctx, append([]string{"-s", peer.Address}, connections(ports)...), "DROP")
}

// Reject has the node's firewall answer connections, to all ports when none is
// named, with a reset, as if nothing listened.
func (n *Node) Reject(ctx context.Context, ports ...string) (Undo, error) {
	if len(ports) == 0 {
		ports = allPorts // only TCP can be reset
	}
	return n.firewall(ctx, connections(ports), "REJECT", "--reject-with", "tcp-reset")
}

// Prohibit has the node's firewall answer connections, or all that arrives when
// no ports are named, with "host administratively prohibited", as firewalld's
// default rules do. Callers are told that there is no route to the host.
func (n *Node) Prohibit(ctx context.Context, ports ...string) (Undo, error) {
	return n.firewall(ctx, connections(ports), "REJECT", "--reject-with", "icmp-host-prohibited")
}

// ResetAfterAccept has the node accept connections to these TCP ports and reset
// them at the first byte the caller sends, as firewalls do that look into what
// passes, and proxies whose server is dead. The node itself hears nothing.
func (n *Node) ResetAfterAccept(ctx context.Context, ports ...string) (Undo, error) {
	spoken := []string{"-p", "tcp", "--tcp-flags", "PSH", "PSH", "-m", "conntrack", "--ctdir", "ORIGINAL"}
	return n.firewall(ctx, append(spoken, toPorts(ports)...), "REJECT", "--reject-with", "tcp-reset")
}

// Unroute has everything that is sent to the node answered with "host
// unreachable", as a router does for a machine that is switched off. Linux
// believes it when it hears it twice, after a second.
func (n *Node) Unroute(ctx context.Context) (Undo, error) {
	return n.firewall(ctx, nil, "REJECT", "--reject-with", "icmp-host-unreachable")
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
func (n *Node) firewall(ctx context.Context, match []string, target ...string) (Undo, error) {
	rule := append([]string{"INPUT", "!", "-i", "lo"}, match...)
	rule = append(append(rule, "-j"), target...)
	if _, err := n.Run(ctx, append([]string{"iptables", "-w", "-I"}, rule...)...); err != nil {
		return nil, err
	}
	return func() error {
		_, err := n.Run(context.Background(), append([]string{"iptables", "-w", "-D"}, rule...)...)
		return err
	}, nil
}
