// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

// networkFaults are faults of routes, firewalls and resolvers.
var networkFaults = []planted{
	// Rank 0 calls its own store at the node's own address, over the loopback interface.
	{name: "loopback-down-on-first", steps: sh("w1", "ip link set lo down"), dies: "pdsh c10d"},
	// The hosts have no route to a name server, so without /etc/hosts a lookup fails at once.
	{name: "dns-only-first", steps: sh("w1", "sed -i 's/^hosts:.*/hosts: dns/' /etc/nsswitch.conf"), trains: "pdsh", dies: "c10d"},
	{name: "dns-only-last", steps: sh("w2", "sed -i 's/^hosts:.*/hosts: dns/' /etc/nsswitch.conf"), trains: "pdsh", dies: "c10d"},
}
