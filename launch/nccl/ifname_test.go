// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/testhosts/launchtest"
)

func TestMatchIfname(t *testing.T) {
	kernel := []string{"lo", "eth0", "eth1", "eth10", "ib0", "docker0", "^eth0"}
	for _, test := range []struct {
		spec string
		want []string
	}{
		{"eth1", []string{"eth1", "eth10"}},
		{"=eth1", []string{"eth1"}},
		{"^docker0,lo", []string{"eth0", "eth1", "eth10", "ib0", "^eth0"}},
		{"^=eth1,lo", []string{"eth0", "eth10", "ib0", "docker0", "^eth0"}},
		{"=^eth0", []string{"^eth0"}},            // after the = a ^ is an ordinary character
		{"ib0,=eth0", []string{"ib0"}},           // the = only counts at the start
		{" eth1", nil},                           // NCCL does not trim spaces
		{"ib0, eth0", []string{"ib0"}},           //
		{"ib0,,lo", []string{"lo", "ib0"}},       // in kernel order, without empty items
		{"eth0:9", []string{"eth0"}},             // interfaces have no ports
		{"^=", nil},                              // everything is excluded
		{"=,", kernel},                           // an empty list matches everything
		{"eth7", nil},                            //
		{strings.Repeat("x,", 16) + "eth0", nil}, // NCCL does not read the seventeenth item
		{strings.Repeat("x,", 15) + "eth0", []string{"eth0"}},
	} {
		got, chosen := MatchIfname(test.spec, kernel)
		if !chosen {
			t.Errorf("MatchIfname(%q): not taken as a choice", test.spec)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("MatchIfname(%q) (-want +got):\n%s", test.spec, diff)
		}
	}
	for _, spec := range []string{"", "e", "^", "="} {
		if got, chosen := MatchIfname(spec, kernel); chosen || got != nil {
			t.Errorf("MatchIfname(%q) = %v, %v; NCCL takes it as unset", spec, got, chosen)
		}
	}
}

func TestMatchHCA(t *testing.T) {
	ports := []Device{{"mlx5_0", 1}, {"mlx5_1", 1}, {"mlx5_1", 2}, {"mlx5_10", 1}}
	for _, test := range []struct {
		spec string
		want []Device
	}{
		{"", ports},
		{"^", nil},
		{"mlx5_1", ports[1:]},
		{"=mlx5_1", ports[1:3]},
		{"=mlx5_1:2", ports[2:3]},
		{"=mlx5_1:2:0:1", ports[2:3]}, // rail and plane follow the port
		{"=mlx5_1::3", ports[1:3]},    // an empty port means any port
		{"^mlx5_1:1", []Device{ports[0], ports[2]}},
		{"mlx4", nil},
	} {
		if diff := cmp.Diff(test.want, MatchHCA(test.spec, ports)); diff != "" {
			t.Errorf("MatchHCA(%q) (-want +got):\n%s", test.spec, diff)
		}
	}
}

func TestIfnameFor(t *testing.T) {
	type node struct{ wanted, names string }
	for _, c := range []struct {
		name  string
		nodes []node
		want  string
	}{
		{"one name", []node{{"eth0", "lo eth0"}, {"eth0", "lo docker0 eth0"}}, "eth0"},
		{"one name that another begins with", []node{{"eth1", "lo eth1"}, {"eth1", "eth1 eth10"}}, "=eth1"},
		{"a shared prefix", []node{{"enp3s0", "lo enp3s0"}, {"enp4s0", "lo enp4s0 docker0"}}, "enp"},
		{"down to the numbers", []node{{"eth10", "eth10"}, {"eth11", "eth11"}}, "eth"},
		{"with a number, where that tells apart", []node{{"eth10", "eth10 eth2"}, {"eth11", "eth11 eth2"}}, "eth1"},
		{"a list", []node{{"eth0", "lo eth0"}, {"enp4s0", "lo enp4s0"}}, "=enp4s0,eth0"},
		{"a list, because the prefix selects more", []node{{"enp3s0", "enp3s0 enp9s0"}, {"enp4s0", "enp4s0"}}, "=enp3s0,enp4s0"},
		{"one node has both names", []node{{"eth0", "eth0 eth1"}, {"eth1", "eth0 eth1"}}, ""},
		{"a name too short to be a prefix", []node{{"e", "lo e"}}, "=e"},
		{"a shared letter is no prefix", []node{{"e1", "e1"}, {"e2", "e2"}}, "=e1,e2"},
		{"a name that is not there", []node{{"eth0", "lo"}}, ""},
		{"nothing wanted", []node{{"eth0", "eth0"}, {"", "eth0"}}, ""},
		{"nobody", nil, ""},
	} {
		wanted := map[*facts.Node]string{}
		var nodes []*facts.Node
		for _, n := range c.nodes {
			net := &facts.Net{}
			for i, name := range strings.Fields(n.names) {
				net.Interfaces = append(net.Interfaces, facts.Interface{Name: name, Addresses: []string{fmt.Sprintf("10.%d.0.1/24", i)}})
			}
			net.Interfaces = append(net.Interfaces, facts.Interface{Name: n.wanted + "9"}) // an interface without an address does not count
			nodes = append(nodes, &facts.Node{Facts: facts.Facts{Net: net}})
			wanted[nodes[len(nodes)-1]] = n.wanted
		}
		if got := IfnameFor(nodes, func(n *facts.Node) string { return wanted[n] }); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := IfnameFor([]*facts.Node{{}}, func(*facts.Node) string { return "eth0" }); got != "" {
		t.Errorf("interfaces not seen: %q", got)
	}
}

// TestIfnameForManyNames: NCCL reads at most sixteen names.
func TestIfnameForManyNames(t *testing.T) {
	var nodes []*facts.Node
	for i := range 17 {
		name := fmt.Sprintf("%cnic", 'a'+i)
		nodes = append(nodes, &facts.Node{Facts: facts.Facts{Net: launchtest.Net(name + " 10.0.0.1/24")}})
	}
	own := func(n *facts.Node) string { return n.Net.Interfaces[0].Name }
	if got := IfnameFor(nodes, own); got != "" {
		t.Errorf("17 names: %q", got)
	}
	if got := IfnameFor(nodes[:2], own); got != "=anic,bnic" {
		t.Errorf("2 names: %q", got)
	}
}
