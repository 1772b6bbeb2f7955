// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"testing"

	"preflight/facts"
	"preflight/launch"
)

func libraries(names ...string) []facts.RDMALibrary {
	all := []facts.RDMALibrary{}
	for _, name := range names {
		all = append(all, facts.RDMALibrary{Name: name, Path: "/opt/" + name})
	}
	return all
}

// TestNetwork checks the reasons why NET/IB has no device, and the plugin that NCCL tries before
// NET/IB.
func TestNetwork(t *testing.T) {
	const verbs, mlx5 = "libibverbs.so.1", "libmlx5.so.1"
	tests := []struct {
		name     string
		change   func(*facts.IB)
		env      []string
		ports    string
		obstacle string
		plugin   string
	}{
		{name: "usual", ports: "mlx5_0:1 mlx5_1:1"},
		{name: "disabled", env: []string{"NCCL_IB_DISABLE=1"}, obstacle: ObstacleDisabled},
		{name: "not disabled", env: []string{"NCCL_IB_DISABLE=no"}, ports: "mlx5_0:1 mlx5_1:1"},
		{name: "sockets wanted", env: []string{"NCCL_NET=socket"}, obstacle: ObstacleDisabled},
		{name: "wanted", env: []string{"NCCL_NET=ib"}, ports: "mlx5_0:1 mlx5_1:1"},
		{name: "another network wanted", env: []string{"NCCL_NET=AWS Libfabric"}, obstacle: ObstacleDisabled},
		{name: "no adapter", change: func(ib *facts.IB) { ib.Devices = nil }, obstacle: ObstacleNoAdapter},
		{name: "ports down", change: func(ib *facts.IB) { ib.Devices[0].Ports[0].State, ib.Devices[1].Ports[0].State = "DOWN", "INIT" }, obstacle: ObstacleInactive},
		{name: "ports of no layer that NCCL knows", change: func(ib *facts.IB) {
			ib.Devices[0].Ports[0].LinkLayer, ib.Devices[1].Ports[0].LinkLayer = "Unspecified", ""
		}, obstacle: ObstacleInactive},
		{name: "selected none", env: []string{"NCCL_IB_HCA=hfi1"}, obstacle: ObstacleHCA},
		{name: "no library", change: func(ib *facts.IB) { ib.Libraries = libraries(mlx5) }, obstacle: ObstacleNoLibrary},
		{name: "a library elsewhere", env: []string{"NCCL_IBVERBS_LIB=/x.so"}, change: func(ib *facts.IB) { ib.Libraries = libraries() }, ports: "mlx5_0:1 mlx5_1:1"},
		{name: "libraries not told", change: func(ib *facts.IB) { ib.Libraries = nil }, ports: "mlx5_0:1 mlx5_1:1"},
		{name: "no driver", change: func(ib *facts.IB) { ib.Libraries = libraries(verbs) }, obstacle: ObstacleNoDriver},
		{name: "no driver for some", change: func(ib *facts.IB) { ib.Libraries, ib.Devices[1].Driver = libraries(verbs), "irdma" }, ports: "mlx5_0:1 mlx5_1:1"},
		{name: "no verbs", change: func(ib *facts.IB) { ib.Verbs = nil }, obstacle: ObstacleNoVerbs},
		{name: "verbs of others", change: func(ib *facts.IB) { ib.Verbs = []string{"/dev/infiniband/uverbs9"} }, obstacle: ObstacleNoVerbs},
		{name: "verbs of one", change: func(ib *facts.IB) { ib.Verbs = ib.Verbs[:1] }, ports: "mlx5_0:1"},
		{name: "refused", change: func(ib *facts.IB) {
			ib.Refused = []facts.DeviceNode{{Path: ib.Verbs[0]}, {Path: ib.Verbs[1]}}
		}, obstacle: ObstacleRefused},
		{name: "one refused, one not there", change: func(ib *facts.IB) { ib.Refused, ib.Verbs = []facts.DeviceNode{{Path: ib.Verbs[0]}}, ib.Verbs[:1] }, obstacle: ObstacleRefused},
		{name: "the one that is selected refused", env: []string{"NCCL_IB_HCA=mlx5_1"}, change: func(ib *facts.IB) { ib.Refused = []facts.DeviceNode{{Path: ib.Verbs[1]}} }, obstacle: ObstacleRefused},
		{name: "whose verbs they are is not told", change: func(ib *facts.IB) { ib.Devices[0].Verbs, ib.Devices[1].Verbs, ib.Verbs = "", "", ib.Verbs[:1] }, ports: "mlx5_0:1 mlx5_1:1"},

		{name: "a plugin", change: func(ib *facts.IB) { ib.Libraries = libraries(verbs, mlx5, "libnccl-net.so") }, ports: "mlx5_0:1 mlx5_1:1", plugin: "libnccl-net.so"},
		{name: "a plugin that is not asked", change: func(ib *facts.IB) { ib.Libraries = libraries(verbs, mlx5, "libnccl-net-ofi.so") }, ports: "mlx5_0:1 mlx5_1:1"},
		{name: "a plugin by name", env: []string{"NCCL_NET_PLUGIN=none,ofi"}, change: func(ib *facts.IB) { ib.Libraries = libraries(verbs, mlx5, "libnccl-net-ofi.so") }, ports: "mlx5_0:1 mlx5_1:1", plugin: "libnccl-net-ofi.so"},
		{name: "a plugin by file", env: []string{"NCCL_NET_PLUGIN=libnccl-net-ofi.so"}, change: func(ib *facts.IB) { ib.Libraries = libraries(verbs, mlx5, "libnccl-net-ofi.so") }, ports: "mlx5_0:1 mlx5_1:1", plugin: "libnccl-net-ofi.so"},
		{name: "a plugin by path", env: []string{"NCCL_NET_PLUGIN=/opt/x.so"}, ports: "mlx5_0:1 mlx5_1:1", plugin: "/opt/x.so"},
		{name: "no plugin", env: []string{"NCCL_NET_PLUGIN=none"}, change: func(ib *facts.IB) { ib.Libraries = libraries(verbs, mlx5, "libnccl-net.so") }, ports: "mlx5_0:1 mlx5_1:1"},
		{name: "a plugin that is passed over", env: []string{"NCCL_NET=IB"}, change: func(ib *facts.IB) { ib.Libraries = libraries(verbs, mlx5, "libnccl-net.so") }, ports: "mlx5_0:1 mlx5_1:1"},
		{name: "a plugin, and sockets wanted", env: []string{"NCCL_NET=Socket"}, change: func(ib *facts.IB) { ib.Libraries = libraries("libnccl-net.so") }, obstacle: ObstacleDisabled},
		{name: "a plugin of the wanted network", env: []string{"NCCL_NET=AWS Libfabric"}, change: func(ib *facts.IB) { ib.Libraries = libraries("libnccl-net.so") }, obstacle: ObstacleDisabled, plugin: "libnccl-net.so"},
	}
	for _, tt := range tests {
		ib := ibOf("mlx5_0:1/I ACTIVE 0000:18:00.0", "mlx5_1:1/I ACTIVE 0000:9a:00.0")
		ib.Verbs, ib.Libraries = []string{"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"}, libraries(verbs, mlx5)
		for i := range ib.Devices {
			ib.Devices[i].Driver, ib.Devices[i].Verbs = "mlx5_core", ib.Verbs[i]
		}
		if tt.change != nil {
			tt.change(ib)
		}
		got := NetworkOf((launch.Prediction{}), rdmaNode(ib, "", tt.env...))
		if portNames(got.Ports) != tt.ports || got.Obstacle != tt.obstacle || got.Plugin != tt.plugin {
			t.Errorf("%s: ports %q, obstacle %q, plugin %q, want %q, %q, %q", tt.name, portNames(got.Ports), got.Obstacle, got.Plugin, tt.ports, tt.obstacle, tt.plugin)
		}
	}
}
