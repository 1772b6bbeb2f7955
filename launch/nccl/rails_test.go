// SPDX-License-Identifier: Apache-2.0

package nccl_test

import (
	"strings"
	"testing"

	"preflight/facts"
	"preflight/launch"
	"preflight/launch/nccl"
)

func TestRails(t *testing.T) {
	node := func(own string, adapters ...string) *facts.Node {
		up := func(name string, address ...string) facts.Interface {
			return facts.Interface{Name: name, Up: true, Running: true, Kind: "physical", Addresses: address}
		}
		n := &facts.Node{Facts: facts.Facts{
			Net: &facts.Net{Interfaces: []facts.Interface{
				{Name: "lo", Up: true, Running: true, Loopback: true, Addresses: []string{"127.0.0.1/8"}},
				up("eth0", "10.0.0."+own+"/24", "fd00::"+own+"/64"), up("eth1", "10.0.1."+own+"/24"), up("eth2", "10.0."+own+".9/24"), up("docker0", "172.17.0.1/16"),
				{Name: "eth3", Up: true, Addresses: []string{"10.0.3." + own + "/24"}},
			}},
			IB: &facts.IB{Verbs: []string{"/dev/infiniband/uverbs0"}},
		}}
		for _, name := range adapters {
			n.IB.Devices = append(n.IB.Devices, facts.HCA{Name: name, Driver: "mlx5_core", Ports: []facts.IBPort{{Port: 1, State: "ACTIVE", LinkLayer: "InfiniBand"}}})
		}
		return n
	}
	const ethernet = "eth0 10.0.0.7 NCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth0 / eth0 10.0.0.8 NCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth0; " +
		"eth1 10.0.1.7 NCCL_SOCKET_IFNAME==eth1 GLOO_SOCKET_IFNAME=eth1 / eth1 10.0.1.8 NCCL_SOCKET_IFNAME==eth1 GLOO_SOCKET_IFNAME=eth1"
	single := node("8")
	single.Net.Interfaces = single.Net.Interfaces[:2]
	for _, test := range []struct {
		name        string
		accelerator string
		a, b        *facts.Node
		exports     []facts.Setting
		want        string
	}{
		{"interfaces in one subnet", "cpu", node("7"), node("8"), nil, ethernet},
		{"one of them alone is none", "cpu", node("7"), single, nil, ""},
		{"processes on processors talk by no adapter", "cpu", node("7", "mlx5_0", "mlx5_1"), node("8", "mlx5_0", "mlx5_1"), nil, ethernet},
		{"no adapter", "cuda", node("7"), node("8", "mlx5_0", "mlx5_1"), nil, ethernet},
		{"ports of one index, whatever they are called", "cuda", node("7", "mlx5_0", "mlx5_1", "mlx5_2"), node("8", "mlx5_4", "mlx5_5"), nil,
			"mlx5_0:1 NCCL_IB_HCA==mlx5_0:1 / mlx5_4:1 NCCL_IB_HCA==mlx5_4:1; mlx5_1:1 NCCL_IB_HCA==mlx5_1:1 / mlx5_5:1 NCCL_IB_HCA==mlx5_5:1"},
		{"one port", "cuda", node("7", "mlx5_0"), node("8", "mlx5_0"), nil, ""},
		{"those that the launch has NCCL take", "cuda", node("7", "mlx5_0", "mlx5_1", "mlx5_2"), node("8", "mlx5_0", "mlx5_1", "mlx5_2"), []facts.Setting{{Name: "NCCL_IB_HCA", Value: "^mlx5_1"}},
			"mlx5_0:1 NCCL_IB_HCA==mlx5_0:1 / mlx5_0:1 NCCL_IB_HCA==mlx5_0:1; mlx5_2:1 NCCL_IB_HCA==mlx5_2:1 / mlx5_2:1 NCCL_IB_HCA==mlx5_2:1"},
		{"nobody saw", "cuda", &facts.Node{}, node("8"), nil, ""},
	} {
		var got []string
		for _, rail := range nccl.Rails(launch.Prediction{Accelerator: test.accelerator, Exports: test.exports}, test.a, test.b) {
			var ends []string
			for _, end := range rail.Ends {
				text := end.Name
				if end.Address != "" {
					text += " " + end.Address
				}
				for _, setting := range end.Env {
					text += " " + setting.Name + "=" + setting.Value
				}
				ends = append(ends, text)
			}
			got = append(got, strings.Join(ends, " / "))
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}
