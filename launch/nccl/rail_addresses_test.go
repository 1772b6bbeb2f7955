// SPDX-License-Identifier: Apache-2.0

package nccl_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

func TestRailAddresses(t *testing.T) {
	up := func(name string, address ...string) facts.Interface {
		return facts.Interface{Name: name, Up: true, Running: true, Kind: "physical", Addresses: address}
	}
	port := func(name, layer, netdev, gid string) facts.HCA {
		return facts.HCA{Name: name, Driver: "mlx5_core", Ports: []facts.IBPort{{
			Port: 1, State: "ACTIVE", LinkLayer: layer, NetDev: netdev, GIDs: []facts.GID{{GID: gid, Type: "RoCE v2"}},
		}}}
	}
	roce := func(name, netdev string, last int) facts.HCA {
		return port(name, "Ethernet", netdev, fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a01:%04x", last))
	}
	node := func(devices ...facts.HCA) *facts.Node {
		return &facts.Node{Facts: facts.Facts{
			Net: &facts.Net{Interfaces: []facts.Interface{
				up("eth0", "10.0.0.7/24"), up("eth1", "10.1.0.1/24", "fe80::1/64"), up("eth2", "10.1.0.2/24"), up("ib0", "10.2.0.7/24"), up("ib1", "fe80::2/64"),
			}},
			IB: &facts.IB{Devices: devices, Verbs: []string{"/dev/infiniband/uverbs0"}},
		}}
	}
	names := []facts.Setting{{Name: "NCCL_SOCKET_IFNAME", Value: "eth"}}
	for _, test := range []struct {
		name    string
		node    *facts.Node
		exports []facts.Setting
		cpu     bool
		want    []nccl.RailAddress
	}{
		{"RoCE, by the GIDs that NCCL takes", node(roce("mlx5_0", "eth1", 1), roce("mlx5_1", "eth2", 2)), names, false, []nccl.RailAddress{
			{Name: "mlx5_0:1", Layer: "RoCE", Interface: "eth1", Address: "10.1.0.1"}, {Name: "mlx5_1:1", Layer: "RoCE", Interface: "eth2", Address: "10.1.0.2"},
		}},
		{"one that NCCL_IB_HCA leaves out", node(roce("mlx5_0", "eth1", 1), roce("mlx5_1", "eth2", 2)), []facts.Setting{{Name: "NCCL_IB_HCA", Value: "^mlx5_0"}}, false, []nccl.RailAddress{
			{Name: "mlx5_1:1", Layer: "RoCE", Interface: "eth2", Address: "10.1.0.2"},
		}},
		{"a GID that no interface here holds, and a link-local one", node(roce("mlx5_0", "eth1", 9), port("mlx5_1", "Ethernet", "eth1", "fe80::1")), nil, false, nil},
		{"InfiniBand, where it has an address of IP", node(port("mlx5_0", "InfiniBand", "ib0", "fe80::7"), port("mlx5_1", "InfiniBand", "ib1", "fe80::8"), port("mlx5_2", "InfiniBand", "", "fe80::9")), nil, false, []nccl.RailAddress{
			{Name: "mlx5_0:1", Layer: "InfiniBand", Interface: "ib0", Address: "10.2.0.7"},
		}},
		{"several interfaces that are named", node(), names, false, []nccl.RailAddress{
			{Name: "eth0", Interface: "eth0", Address: "10.0.0.7"}, {Name: "eth1", Interface: "eth1", Address: "10.1.0.1"}, {Name: "eth2", Interface: "eth2", Address: "10.1.0.2"},
		}},
		{"one that is named", node(), []facts.Setting{{Name: "NCCL_SOCKET_IFNAME", Value: "=eth1"}}, false, nil},
		{"none that is named", node(), nil, false, nil},
		{"processes on processors", node(roce("mlx5_0", "eth1", 1)), names, true, nil},
		{"nobody saw", &facts.Node{}, names, false, nil},
	} {
		p := launch.Prediction{Accelerator: "cuda", Exports: test.exports}
		if test.cpu {
			p.Accelerator = "cpu"
		}
		if diff := cmp.Diff(test.want, nccl.RailAddresses(p, test.node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestSameRail(t *testing.T) {
	rails := func(names ...string) (all []nccl.RailAddress) {
		for _, name := range names {
			all = append(all, nccl.RailAddress{Name: name})
		}
		return all
	}
	for _, test := range []struct {
		own, peer []nccl.RailAddress
		want      int
	}{
		{rails("mlx5_0:1", "mlx5_1:1"), rails("mlx5_0:1", "mlx5_1:1"), 1},
		{rails("mlx5_0:1", "mlx5_2:1"), rails("mlx5_0:1", "mlx5_1:1", "mlx5_2:1"), 2}, // the node's own rail between these two is down
		{rails("mlx5_0:1", "mlx5_1:1"), rails("mlx5_0:1", "mlx5_2:1"), -1},            // the peer's rail is down
		{rails("ens1", "ens2"), rails("eth1", "eth2"), 1},                             // the names differ, so the index decides
		{rails("ens1", "ens2"), rails("eth1"), -1},
	} {
		if got := nccl.SameRail(test.own, test.peer, 1); got != test.want {
			t.Errorf("the second of %v at %v: %d, want %d", test.own, test.peer, got, test.want)
		}
	}
}
