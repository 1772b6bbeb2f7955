// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts/launchtest"
)

func TestSharedAddresses(t *testing.T) {
	node := func(name string, host *facts.Host, interfaces ...string) *facts.Node {
		return &facts.Node{Name: name, Facts: facts.Facts{Host: host, Net: launchtest.Net(interfaces...)}}
	}
	one := &facts.Host{BootID: "b1", MachineID: "m1", NetNamespace: "1"}
	two := &facts.Host{BootID: "b2", MachineID: "m2", NetNamespace: "1"}
	container := &facts.Host{BootID: "b1", MachineID: "m1", NetNamespace: "2"}
	untold := &facts.Host{BootID: "b1", MachineID: "m1"}
	for name, c := range map[string]struct {
		nodes []*facts.Node
		want  map[string]int
	}{
		"everybody has docker0": {[]*facts.Node{
			node("w1", one, "eth0 10.0.0.1/24", "docker0 172.17.0.1/16"), node("w2", two, "eth0 10.0.0.2/24", "docker0 172.17.0.1/16"),
			node("w3", nil, "docker0 172.17.0.1/16"),
		}, map[string]int{"172.17.0.1": 3}},
		"on two interfaces of one machine": {[]*facts.Node{
			node("w1", one, "lo 127.0.0.1/8 10.9.0.1/32", "eth0 10.9.0.1/32"), node("w2", two, "lo 127.0.0.1/8"),
		}, map[string]int{}},
		"two entries of one machine":     {[]*facts.Node{node("w1", one, "eth0 10.0.0.1/24"), node("w1.example", one, "eth0 10.0.0.1/24")}, map[string]int{}},
		"a container beside its machine": {[]*facts.Node{node("w1", one, "eth0 10.0.0.1/24"), node("c1", container, "eth0 10.0.0.1/16")}, map[string]int{"10.0.0.1": 2}},
		"untold machines":                {[]*facts.Node{node("w1", untold, "eth0 10.0.0.1/24"), node("w2", untold, "eth0 10.0.0.1/24")}, map[string]int{"10.0.0.1": 2}},
		"link-local addresses": {[]*facts.Node{
			node("w1", one, "eth0 fe80::1/64", "usb0 169.254.3.1/24"), node("w2", two, "eth0 fe80::1/64", "usb0 169.254.3.1/24"),
		}, map[string]int{"169.254.3.1": 2}},
		"no network seen": {[]*facts.Node{{Name: "w1"}, node("w2", two, "eth0 10.0.0.1/24")}, map[string]int{}},
	} {
		got := map[string]int{}
		for address, machines := range SharedAddresses(c.nodes) {
			got[address.String()] = machines
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestHoldsOthers: a machine with the address of one other machine is a duplicate. If a machine
// claims the addresses of several others, its addresses are ignored.
func TestHoldsOthers(t *testing.T) {
	node := func(name, reached string, interfaces ...string) *facts.Node {
		return &facts.Node{Name: name, Address: reached, Facts: facts.Facts{Net: launchtest.Net(interfaces...)}}
	}
	honest := []*facts.Node{node("w1", "10.0.0.1", "eth0 10.0.0.1/24"), node("w2", "10.0.0.2", "eth0 10.0.0.2/24"), node("w3", "10.9.0.3", "eth0 10.0.0.3/24")}
	for name, c := range map[string]struct {
		last   *facts.Node
		holds  string // the nodes whose addresses the machine claims
		shared []string
	}{
		"its own":                        {node("w4", "10.0.0.4", "eth0 10.0.0.4/24"), "", nil},
		"one of another":                 {node("w4", "10.0.0.4", "eth0 10.0.0.4/24 10.0.0.1/24"), "", []string{"10.0.0.1"}},
		"those of two":                   {node("w4", "10.0.0.4", "eth0 10.0.0.4/24 10.0.0.1/24", "eth1 10.0.0.2/24"), "w1 w2", nil},
		"one by which w3 is not reached": {node("w4", "10.0.0.4", "eth0 10.0.0.4/24 10.0.0.1/24 10.0.0.3/24"), "", []string{"10.0.0.1", "10.0.0.3"}},
		"no network seen":                {&facts.Node{Name: "w4", Address: "10.0.0.1"}, "", nil},
	} {
		nodes := append(slices.Clone(honest), c.last)
		others := slices.Sorted(maps.Values(HoldsOthers(nodes)["w4"]))
		if got := strings.Join(others, " "); got != c.holds {
			t.Errorf("%s: it holds those of %q, want %q", name, got, c.holds)
		}
		var shared []string
		for address := range SharedAddresses(nodes) {
			shared = append(shared, address.String())
		}
		slices.Sort(shared)
		if diff := cmp.Diff(c.shared, shared); diff != "" {
			t.Errorf("%s: shared (-want +got):\n%s", name, diff)
		}
	}
}
