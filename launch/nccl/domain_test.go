// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// TestBetweenOverNVLink follows NVIDIA/nccl, ncclMnnvlCheck, 2.21 to 2.30.7.
func TestBetweenOverNVLink(t *testing.T) {
	const why = "the GPUs are in the same cluster and clique; whether IMEX connects them was not tested"
	nvlink := Transport{Name: "NVLink", Detail: "between all nodes", Why: why}
	network := Transport{Name: "InfiniBand", Detail: "mlx5_0, 100 Gbit/s, GPUDirect"}
	pairs := Transport{Name: "NVLink", Detail: "in domains of 2 nodes; between them InfiniBand, mlx5_0, 100 Gbit/s, GPUDirect", Why: why}
	each := func(t Transport) []Transport { return []Transport{t, t, t, t} }
	fabric := func(node *facts.Node, card int) *facts.GPUFabric { return node.NVML.Cards[card].Fabric }
	for _, c := range []struct {
		name   string
		change func(nodes []facts.Node)
		nccl   string
		env    []string
		slots  []int
		want   []Transport
	}{
		{name: "one rack", want: each(nvlink)},
		{name: "two cliques", change: func(n []facts.Node) {
			for i := range 4 {
				fabric(&n[2+i/2], i%2).Clique = 2
			}
		}, want: each(pairs)},
		{name: "two racks", change: func(n []facts.Node) {
			for i := range 4 {
				fabric(&n[2+i/2], i%2).Cluster = "b"
			}
		}, want: each(pairs)},
		{name: "one of another rack", change: func(n []facts.Node) {
			fabric(&n[3], 0).Cluster, fabric(&n[3], 1).Cluster = "b", "b"
		}, want: []Transport{
			{Name: "NVLink", Detail: "in domains of 3 nodes; between them InfiniBand, mlx5_0, 100 Gbit/s, GPUDirect", Why: why},
			{Name: "NVLink", Detail: "in domains of 3 nodes; between them InfiniBand, mlx5_0, 100 Gbit/s, GPUDirect", Why: why},
			{Name: "NVLink", Detail: "in domains of 3 nodes; between them InfiniBand, mlx5_0, 100 Gbit/s, GPUDirect", Why: why},
			network,
		}},
		{name: "two racks, and no network seen", change: func(n []facts.Node) {
			for i := range n {
				n[i].IB = nil
			}
			for i := range 4 {
				fabric(&n[2+i/2], i%2).Cluster = "b"
			}
		}, want: each(Transport{Name: "NVLink", Detail: "in domains of 2 nodes", Why: why})},
		{name: "machines that are their own fabric", change: func(n []facts.Node) {
			for i := range n {
				fabric(&n[i], 0).Cluster, fabric(&n[i], 1).Cluster = "", ""
			}
		}, want: each(network)},
		{name: "one GPU not ready", change: func(n []facts.Node) { fabric(&n[3], 1).State = "in-progress" }, want: each(network)},
		{name: "one GPU not ready that nobody uses", slots: []int{0}, change: func(n []facts.Node) { fabric(&n[3], 1).State = "in-progress" }, want: each(nvlink)},
		{name: "one GPU of another kind", change: func(n []facts.Node) { n[3].NVML.Cards[1].Fabric = nil }, want: each(network)},
		{name: "a node in two cliques", change: func(n []facts.Node) { fabric(&n[3], 1).Clique = 2 }, want: each(network)},
		{name: "one that tells nothing", change: func(n []facts.Node) { n[3].NVML = nil }, want: []Transport{nvlink, nvlink, nvlink, network}},
		{name: "one without ranks", change: func(n []facts.Node) { n[3].NVML.Cards = nil }, want: []Transport{nvlink, nvlink, nvlink, network}},
		{name: "one whose driver fails", change: func(n []facts.Node) { n[3].NVML.Failure = &facts.NVMLFailure{} }, want: []Transport{nvlink, nvlink, nvlink, network}},
		{name: "before 2.21", nccl: "2.20.5", want: each(network)},
		{name: "since 2.21", nccl: "2.21.5", want: each(nvlink)},
		{name: "switched off", env: []string{"NCCL_MNNVL_ENABLE=0"}, want: each(network)},
		{name: "as by default", env: []string{"NCCL_MNNVL_ENABLE=2"}, want: each(nvlink)},
		{name: "no cuMem", env: []string{"NCCL_CUMEM_ENABLE=0"}, want: each(network)},
		{name: "no peers", env: []string{"NCCL_P2P_DISABLE=1"}, want: each(network)},
		{name: "other cliques", env: []string{"NCCL_MNNVL_CLIQUE_ID=-2"}, want: each(Transport{})},
		{name: "other racks", env: []string{"NCCL_MNNVL_UUID=7"}, want: each(Transport{})},
		{name: "beyond cliques", env: []string{"NCCL_MNNVL_CROSS_CLIQUE=1"}, want: each(Transport{})},
	} {
		p := launch.Prediction{Launcher: "pdsh"}
		var nodes []facts.Node
		for i := range 4 {
			ib := ibOf("mlx5_0:1/I ACTIVE 0002:01:00.0")
			ib.Peermem, ib.Devices[0].Path = true, []string{"pci0002:00", "0002:00:00.0", "0002:01:00.0"}
			node := rdmaNode(ib, c.nccl, c.env...)
			node.Name = fmt.Sprintf("w%d", i+1)
			node.NVML, node.GPU = gpus("X NV18", "NV18 X"), &facts.GPU{}
			for card := range node.NVML.Cards {
				address := fmt.Sprintf("0008:0%d:00.0", card)
				node.NVML.Cards[card] = facts.Card{Name: "NVIDIA GB200", Address: address, Fabric: &facts.GPUFabric{State: "completed", Cluster: "a", Clique: 1}}
				node.GPU.OnBus = append(node.GPU.OnBus, facts.PCIGPU{Address: address, Path: []string{"pci0002:00", "0002:00:00.0", address}})
			}
			nodes = append(nodes, *node)
			p.Hosts = append(p.Hosts, hostfile.Host{Name: node.Name, Slots: c.slots})
		}
		if c.change != nil {
			c.change(nodes)
		}
		var got []Transport
		transports := NewTransports(p, nodes)
		for i := range nodes {
			got = append(got, transports.Between(&nodes[i]))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
