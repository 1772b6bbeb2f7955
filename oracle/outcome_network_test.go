// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import "preflight/testhosts"

// networkFaults are faults of routes, firewalls and resolvers.
var networkFaults = []planted{
	// Rank 0 calls its own store at the node's own address, over the loopback interface.
	{name: "loopback-down-on-first", steps: sh("w1", "ip link set lo down"), dies: "pdsh c10d"},
	// The second interface leads nowhere. The order of the two routes decides.
	{name: "second-interface-last-route", steps: change("w2", inSameNetwork), trains: "pdsh"},
	{name: "second-interface-first-route", steps: append(change("w2", inSameNetwork), sh("w2", "ip route del 10.77.0.0/16 dev eth0; ip route append 10.77.0.0/16 dev eth0 src 10.77.1.2; ip route add 10.77.0.1 dev eth0")...), dies: "pdsh"},
	{name: "few-ports-at-last", steps: sh("w2", "sysctl -w net.ipv4.ip_local_port_range='40000 40002'"), trains: "pdsh c10d"},
	// As a sidecar does, but only for incoming connections.
	{name: "redirect-at-first", steps: sh("w1", "iptables -t nat -A PREROUTING -p tcp --dport 1024:65535 -j REDIRECT --to-ports 15006"), dies: "pdsh c10d"},
	{name: "redirect-at-last", steps: sh("w2", "iptables -t nat -A PREROUTING -p tcp --dport 1024:65535 -j REDIRECT --to-ports 15006"), trains: "pdsh c10d"},
	{name: "blackhole-route-at-first", steps: sh("w1", "ip route add blackhole 10.77.1.2"), dies: "pdsh c10d"},
	// The hosts have no route to a name server, so without /etc/hosts a lookup fails at once.
	{name: "dns-only-first", steps: sh("w1", "sed -i 's/^hosts:.*/hosts: dns/' /etc/nsswitch.conf"), trains: "pdsh", dies: "c10d"},
	{name: "dns-only-last", steps: sh("w2", "sed -i 's/^hosts:.*/hosts: dns/' /etc/nsswitch.conf"), trains: "pdsh", dies: "c10d"},
}

func inSameNetwork(n *testhosts.Node) (testhosts.Undo, error) {
	return n.AddNIC(testhosts.NIC{Name: "eth1", Prefix: "10.77.9.2/16"})
}
