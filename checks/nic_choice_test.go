package checks

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// TestMisplaced names for each node whose rank address is of no use the one
// check that says why, so that no other says it again.
func TestMisplaced(t *testing.T) {
	export := func(name, value string) func(*launchable) {
		return func(l *launchable) { l.Launch.Exports = []facts.Setting{{Name: name, Value: value}} }
	}
	ownLoopback := func(l *launchable) {
		l.Launch.Accelerator = "cpu"
		l.Nodes[1].Names.Lookups[1].Addresses = []string{"127.0.1.1"}
	}
	unseen := func(l *launchable) { l.Launch.Accelerator, l.Nodes[1].Names = "cpu", nil }
	tunnel := func(l *launchable) {
		card(&l.Nodes[1], 1, "cni0", "10.244.0.1/24")
		l.Nodes[0].Mesh, l.Nodes[1].Mesh = nil, nil
	}
	onlyIPv6 := func(node *facts.Node) { node.Net.Interfaces[1].Addresses = []string{"fd00::9/64"} }
	dual := func(l *launchable) {
		for i := range l.Nodes {
			l.Nodes[i].Net.Interfaces[1].Addresses = append(l.Nodes[i].Net.Interfaces[1].Addresses, fmt.Sprintf("fd00::%d/64", i+1))
			l.Nodes[i].Mesh = nil
		}
		export("NCCL_SOCKET_FAMILY", "AF_INET6")(l)
	}
	for name, c := range map[string]struct {
		change func(*launchable)
		policy Policy
		want   map[string]string
	}{
		"nobody":                        {func(*launchable) {}, Policy{}, map[string]string{}},
		"told what is not there":        {export("NCCL_SOCKET_IFNAME", "eth7"), Policy{}, map[string]string{"w1": "env-sane", "w2": "env-sane"}},
		"told the loopback":             {export("NCCL_SOCKET_IFNAME", "lo"), Policy{}, map[string]string{"w1": "nic-choice", "w2": "nic-choice"}},
		"its own name":                  {ownLoopback, Policy{}, map[string]string{"w2": "host-names"}},
		"its own name, which none says": {ownLoopback, Policy{Skip: []string{"host-names"}}, map[string]string{}},
		"its own name was not seen":     {unseen, Policy{}, map[string]string{}},
		"its own name, which NCCL does not ask for": {func(l *launchable) { l.Nodes[1].Names = nil; export("NCCL_SOCKET_IFNAME", "lo")(l) }, Policy{},
			map[string]string{"w1": "nic-choice", "w2": "nic-choice"}},
		"a network inside":         {tunnel, Policy{}, map[string]string{"w2": "nic-choice"}},
		"its network was not seen": {func(l *launchable) { tunnel(l); l.Nodes[1].Net = nil }, Policy{}, map[string]string{}},
		"a network inside, that only it called": {func(l *launchable) {
			tunnel(l)
			l.Nodes[1].Mesh = &facts.Mesh{Interface: "cni0", Address: "10.244.0.1", Reached: map[string]float64{"w2": 1}}
		}, Policy{}, map[string]string{"w2": "nic-choice"}},
		"ranks by IPv6, ssh by IPv4": {dual, Policy{}, map[string]string{}},
		"one by IPv6": {func(l *launchable) {
			l.Nodes = append(l.Nodes, healthyFleet(3).Nodes[2])
			onlyIPv6(&l.Nodes[1])
		}, Policy{}, map[string]string{"w2": "nic-choice"}},
		"one by IPv6, that answers": {func(l *launchable) {
			l.Nodes = append(l.Nodes, healthyFleet(3).Nodes[2])
			onlyIPv6(&l.Nodes[1])
			l.Nodes[1].Mesh.Address = "fd00::9"
		}, Policy{}, map[string]string{}},
		"a network inside, that answers": {func(l *launchable) {
			tunnel(l)
			l.Nodes[0].Mesh = &facts.Mesh{Interface: "eth0", Address: "10.0.0.1", Reached: map[string]float64{"w2": 1}}
		}, Policy{}, map[string]string{}},
	} {
		fleet := healthyFleet(2)
		c.change(&fleet)
		got := misplaced(View{All: fleet.Nodes, Launch: fleet.Launch, Policy: c.policy})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
