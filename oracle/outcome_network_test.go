// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"slices"

	"preflight/testhosts"
)

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
	{name: "few-ports-at-first", steps: sh("w1", "sysctl -w net.ipv4.ip_local_port_range='40000 40002'"), trains: "pdsh", dies: "c10d"},
	{name: "four-ports-at-first", steps: sh("w1", "sysctl -w net.ipv4.ip_local_port_range='40000 40003'"), trains: "c10d"},
	{name: "five-ports-at-first", steps: sh("w1", "sysctl -w net.ipv4.ip_local_port_range='40000 40004'"), trains: "c10d"},
	{name: "six-ports-at-first", steps: sh("w1", "sysctl -w net.ipv4.ip_local_port_range='40000 40005'"), trains: "pdsh c10d"},
	// gloo's connections count too: the rank on w2, which has the larger address, calls.
	{name: "one-connection-for-each", steps: sh("w1", atMost+"1 -j DROP"), dies: "pdsh"},
	{name: "two-connections-for-each", steps: sh("w1", atMost+"2 -j DROP"), trains: "pdsh", dies: "c10d"},
	{name: "three-connections-for-each", steps: sh("w1", atMost+"3 -j DROP"), trains: "c10d"},
	{name: "rendezvous-ports-closed-at-last", steps: sh("w2", "iptables -A OUTPUT -o eth0 -p tcp --dport 29400:29500 -j DROP"), dies: "pdsh c10d"},
	// With c10d, the first two launches train too, after three to four minutes of lookups.
	{name: "silent-resolver-at-last", steps: slices.Concat(sh("w1", dropsQueries), sh("w2", asks+"w1; hosts 'dns files'")), trains: "pdsh"},
	{name: "silent-resolver-at-first", steps: slices.Concat(sh("w2", dropsQueries), sh("w1", asks+"w2; hosts 'dns files'")), trains: "pdsh"},
	{name: "silent-resolver-alone-at-last", steps: slices.Concat(sh("w1", dropsQueries), sh("w2", asks+"w1; hosts dns")), trains: "pdsh", dies: "c10d", mayBeUnknown: "the name server might answer in time next"},
}

const (
	atMost = "iptables -A INPUT -i eth0 -p tcp --syn ! --dport 22 -m connlimit --connlimit-mask 32 --connlimit-above "
	// dropsQueries makes a name server of a node that never answers, which asks makes another one use.
	dropsQueries = "iptables -A INPUT -p udp --dport 53 -j DROP"
	asks         = `hosts() { sed -i "s/^hosts:.*/hosts: $1/" /etc/nsswitch.conf; }
		server() { echo "nameserver $(getent hosts "$1" | cut -d' ' -f1)" >/etc/resolv.conf; }
		server `
)

func inSameNetwork(n *testhosts.Node) (testhosts.Undo, error) {
	return n.AddNIC(testhosts.NIC{Name: "eth1", Prefix: "10.77.9.2/16"})
}
