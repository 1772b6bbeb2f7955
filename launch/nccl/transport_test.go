// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
	"preflight/testhosts/launchtest"
)

func TestBetween(t *testing.T) {
	two := launch.Prediction{Launcher: "pdsh", Hosts: []hostfile.Host{{Name: "w1"}, {Name: "w2"}}}
	eight := func() *facts.IB {
		ib := ibOf("mlx5_0:1/I ACTIVE 0000:18:00.0", "mlx5_1:1/I ACTIVE 0000:3a:00.0", "mlx5_2:1/I ACTIVE 0000:4c:00.0", "mlx5_3:1/I ACTIVE 0000:5e:00.0")
		ib.Peermem = true
		return ib
	}
	slower := eight()
	slower.Devices[2].Ports[0].Rate = 50e9
	without := eight()
	without.Peermem, without.Verbs = false, nil
	refused := eight()
	refused.Refused = []facts.DeviceNode{{Path: refused.Verbs[0], Problem: "operation not permitted"}}
	plugin := eight()
	plugin.Libraries = libraries("libibverbs.so.1", "libmlx5.so.1", "libnccl-net.so")
	const ssh = " from the ssh session's environment"
	const eth0 = "eth0, 25 Gbit/s"
	for _, c := range []struct {
		name string
		p    launch.Prediction
		ib   *facts.IB
		env  []string
		want Transport
	}{
		{"four", two, eight(), nil, Transport{Name: "InfiniBand", Detail: "mlx5_0 … mlx5_3, 4 × 100 Gbit/s, GPUDirect"}},
		{"of two rates", two, slower, nil, Transport{Name: "InfiniBand", Detail: "mlx5_0 … mlx5_3, 4 ports of 50 to 100 Gbit/s, GPUDirect"}},
		{"chosen", two, eight(), []string{"NCCL_IB_HCA==mlx5_0,mlx5_2"}, Transport{Name: "InfiniBand", Detail: "mlx5_0, mlx5_2, 2 × 100 Gbit/s, GPUDirect"}},
		{"RoCE, two ports of one card", two, ibOf("mlx5_0:1/E ACTIVE 0000:18:00.0", "mlx5_1:1/E ACTIVE 0000:18:00.1"), nil, Transport{Name: "RoCE", Detail: "mlx5_0+mlx5_1, 200 Gbit/s"}},
		{"two ports of one adapter", two, ibOf("mlx4_0:1/E ACTIVE 0000:18:00.0", "mlx4_0:2/E ACTIVE 0000:18:00.0"), nil, Transport{Name: "RoCE", Detail: "mlx4_0, 200 Gbit/s"}},
		{"both layers", two, ibOf("mlx5_0:1/I ACTIVE 0000:18:00.0", "mlx5_1:1/E ACTIVE 0000:19:00.0"), nil, Transport{Name: "InfiniBand and RoCE", Detail: "mlx5_0, mlx5_1, 2 × 100 Gbit/s"}},
		{"a plugin", two, plugin, nil, Transport{Name: "libnccl-net.so", Detail: "/opt/libnccl-net.so", Why: "NCCL tries a network plugin first; if that finds no device, InfiniBand"}},
		{"a plugin and nothing else", two, ibOf(), []string{"NCCL_NET_PLUGIN=/opt/x.so"}, Transport{Name: "/opt/x.so", Why: "NCCL tries a network plugin first; if that finds no device, sockets"}},
		{"no plugin of the wanted network", two, ibOf(), []string{"NCCL_NET=IB"}, Transport{}},
		{"disabled", two, eight(), []string{"NCCL_IB_DISABLE=1"}, Transport{Name: "sockets", Detail: eth0, Why: "NCCL_IB_DISABLE=1" + ssh}},
		{"sockets wanted", two, eight(), []string{"NCCL_NET=Socket"}, Transport{Name: "sockets", Detail: eth0, Why: "NCCL_NET=Socket" + ssh}},
		{"none selected", two, eight(), []string{"NCCL_IB_HCA=hfi1"}, Transport{Name: "sockets", Detail: eth0, Why: "NCCL_IB_HCA=hfi1" + ssh + " selects no active port"}},
		{"none there", two, ibOf(), nil, Transport{Name: "sockets", Detail: eth0, Why: "there is no RDMA adapter"}},
		{"down", two, ibOf("mlx5_0:1/I DOWN -"), nil, Transport{Name: "sockets", Detail: eth0, Why: "no InfiniBand or RoCE port is active"}},
		{"no verbs", two, without, nil, Transport{Name: "sockets", Detail: eth0, Why: "no /dev/infiniband/uverbs* leads to the adapters"}},
		{"refused", two, refused, nil, Transport{Name: "sockets", Detail: eth0, Why: "this session may not open /dev/infiniband/uverbs*"}},
		{"two interfaces", two, ibOf(), []string{"NCCL_SOCKET_IFNAME=eth"}, Transport{Name: "sockets", Detail: eth0 + "; eth1", Why: "there is no RDMA adapter"}},
		{"no interface", two, ibOf(), []string{"NCCL_SOCKET_IFNAME=ib"}, Transport{}},
		{"no library", two, func() *facts.IB { ib := eight(); ib.Libraries = libraries(); return ib }(), nil, Transport{Name: "sockets", Detail: eth0, Why: "libibverbs.so.1 is not there"}},
		{"on the processor", launch.Prediction{Hosts: two.Hosts, Accelerator: "cpu"}, eight(), []string{"GLOO_SOCKET_IFNAME=eth0"}, Transport{Name: "sockets", Detail: eth0, Why: "gloo talks TCP"}},
		{"nobody else", launch.Prediction{Hosts: two.Hosts[:1]}, eight(), nil, Transport{}},
		{"nothing seen", two, nil, nil, Transport{}},
	} {
		env := c.env
		if c.name != "two interfaces" && c.name != "no interface" {
			env = append(env, "NCCL_SOCKET_IFNAME=eth0")
		}
		node, speed := rdmaNode(c.ib, "", env...), int64(25e9)
		node.Net = launchtest.Net("eth0 10.0.0.1/24", "eth1 10.1.0.1/24")
		node.Net.Interfaces[0].Speed = &speed
		if diff := cmp.Diff(c.want, NewTransports(c.p, nil).Between(node)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestBetweenWithoutGPUDirect: if GPUs and adapters do not reach each other, the reason is reported
// with the adapters.
func TestBetweenWithoutGPUDirect(t *testing.T) {
	node := rdmaNode(ibOf("mlx5_0:1/I ACTIVE 0000:18:00.0"), "")
	node.GPU, node.Host = &facts.GPU{Module: "550.54.15"}, &facts.Host{Kernel: "5.15.0-107-generic"}
	want := Transport{Name: "InfiniBand", Detail: "mlx5_0, 100 Gbit/s, no GPUDirect", Why: "nvidia_peermem is not loaded, and for DMA-BUF: the driver's kernel module is not the open-source one"}
	if diff := cmp.Diff(want, NewTransports(launch.Prediction{Hosts: []hostfile.Host{{Name: "w1"}, {Name: "w2"}}}, nil).Between(node)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
