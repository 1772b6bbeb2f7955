// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// TestMisplaced checks which check reports each node with an unusable rank address. No other check
// may report the node.
func TestMisplaced(t *testing.T) {
	export := func(name, value string) func(*fleettest.Fleet) {
		return func(l *fleettest.Fleet) { l.Launch.Exports = []facts.Setting{{Name: name, Value: value}} }
	}
	ownLoopback := func(l *fleettest.Fleet) {
		l.Launch.Accelerator = "cpu"
		l.Nodes[1].Names.Lookups[1].Addresses = []string{"127.0.1.1"}
	}
	unseen := func(l *fleettest.Fleet) { l.Launch.Accelerator, l.Nodes[1].Names = "cpu", nil }
	tunnel := func(l *fleettest.Fleet) {
		fleettest.SetCard(&l.Nodes[1], 1, "cni0", "10.244.0.1/24")
		l.Nodes[0].Mesh, l.Nodes[1].Mesh = nil, nil
	}
	onlyIPv6 := func(node *facts.Node) { node.Net.Interfaces[1].Addresses = []string{"fd00::9/64"} }
	dual := func(l *fleettest.Fleet) {
		for i := range l.Nodes {
			l.Nodes[i].Net.Interfaces[1].Addresses = append(l.Nodes[i].Net.Interfaces[1].Addresses, fmt.Sprintf("fd00::%d/64", i+1))
			l.Nodes[i].Mesh = nil
		}
		export("NCCL_SOCKET_FAMILY", "AF_INET6")(l)
	}
	for name, c := range map[string]struct {
		change func(*fleettest.Fleet)
		policy checks.Policy
		want   map[string]string
	}{
		"nobody":                        {func(*fleettest.Fleet) {}, checks.Policy{}, map[string]string{}},
		"set to what is not there":      {export("NCCL_SOCKET_IFNAME", "eth7"), checks.Policy{}, map[string]string{"w1": "env-sane", "w2": "env-sane"}},
		"set to the loopback":           {export("NCCL_SOCKET_IFNAME", "lo"), checks.Policy{}, map[string]string{"w1": "nic-choice", "w2": "nic-choice"}},
		"its own name":                  {ownLoopback, checks.Policy{}, map[string]string{"w2": "host-names"}},
		"its own name, which none says": {ownLoopback, checks.Policy{Skip: []string{"host-names"}}, map[string]string{}},
		"its own name was not seen":     {unseen, checks.Policy{}, map[string]string{}},
		"its own name, which NCCL does not ask for": {func(l *fleettest.Fleet) { l.Nodes[1].Names = nil; export("NCCL_SOCKET_IFNAME", "lo")(l) }, checks.Policy{},
			map[string]string{"w1": "nic-choice", "w2": "nic-choice"}},
		"a network inside":         {tunnel, checks.Policy{}, map[string]string{"w2": "nic-choice"}},
		"its network was not seen": {func(l *fleettest.Fleet) { tunnel(l); l.Nodes[1].Net = nil }, checks.Policy{}, map[string]string{}},
		"a network inside, that only it called": {func(l *fleettest.Fleet) {
			tunnel(l)
			l.Nodes[1].Mesh = &facts.Mesh{Interface: "cni0", Address: "10.244.0.1", Reached: map[string]float64{"w2": 1}}
		}, checks.Policy{}, map[string]string{"w2": "nic-choice"}},
		"ranks by IPv6, ssh by IPv4": {dual, checks.Policy{}, map[string]string{}},
		"one by IPv6": {func(l *fleettest.Fleet) {
			l.Nodes = append(l.Nodes, fleettest.Healthy(3).Nodes[2])
			onlyIPv6(&l.Nodes[1])
		}, checks.Policy{}, map[string]string{"w2": "nic-choice"}},
		"one by IPv6, that answers": {func(l *fleettest.Fleet) {
			l.Nodes = append(l.Nodes, fleettest.Healthy(3).Nodes[2])
			onlyIPv6(&l.Nodes[1])
			l.Nodes[1].Mesh.Address = "fd00::9"
		}, checks.Policy{}, map[string]string{}},
		"a network inside, that answers": {func(l *fleettest.Fleet) {
			tunnel(l)
			l.Nodes[0].Mesh = &facts.Mesh{Interface: "eth0", Address: "10.0.0.1", Reached: map[string]float64{"w2": 1}}
		}, checks.Policy{}, map[string]string{}},
	} {
		fleet := fleettest.Healthy(2)
		c.change(&fleet)
		got := map[string]string{}
		for node, m := range misplaced(checks.View{All: fleet.Nodes, Launch: fleet.Launch, Policy: c.policy}) {
			got[node] = m.explainedBy
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
