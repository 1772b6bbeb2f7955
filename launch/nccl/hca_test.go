// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/launch"
	"preflight/testhosts/launchtest"
)

// ibOf returns adapters for "name:port/layer state PCI-address", with 100 Gbit/s each. The layer is
// "I" or "E". "-" means no PCI address. The ports of one adapter must follow each other.
func ibOf(ports ...string) *facts.IB {
	ib := &facts.IB{Devices: []facts.HCA{}, Verbs: []string{"/dev/infiniband/uverbs0"}}
	for _, text := range ports {
		fields := strings.Fields(text)
		name, rest, _ := strings.Cut(fields[0], ":")
		port := facts.IBPort{State: fields[1], Rate: 100e9}
		number, layer, _ := strings.Cut(rest, "/")
		port.LinkLayer = map[string]string{"I": "InfiniBand", "E": "Ethernet", "U": "Unspecified"}[layer]
		if _, err := fmt.Sscan(number, &port.Port); err != nil {
			panic(err)
		}
		if last := len(ib.Devices) - 1; last < 0 || ib.Devices[last].Name != name {
			ib.Devices = append(ib.Devices, facts.HCA{Name: name})
		}
		device := &ib.Devices[len(ib.Devices)-1]
		device.Ports = append(device.Ports, port)
		if fields[2] != "-" {
			device.Path = []string{"pci0000:00", fields[2]}
		}
	}
	return ib
}

func rdmaNode(ib *facts.IB, nccl string, pairs ...string) *facts.Node {
	node := launchtest.Node(launchtest.Net("eth0 10.0.0.1/24"), nil, pairs...)
	node.IB = ib
	if nccl != "" {
		node.Python = &facts.Python{NCCL: []facts.NCCLLibrary{{Version: nccl}}}
	}
	return node
}

func portNames(ports []HCAPort) string {
	var names []string
	for _, port := range ports {
		names = append(names, port.Name())
	}
	return strings.Join(names, " ")
}

// TestHCAPorts follows NVIDIA/nccl, ncclIbInitDevices, 2.12 to 2.30.7.
func TestHCAPorts(t *testing.T) {
	usual := ibOf("mlx5_0:1/I ACTIVE 0000:9a:00.0", "mlx5_1:1/I DOWN 0000:18:00.0", "mlx5_10:1/I ACTIVE 0000:18:00.1", "mlx5_2:1/E ACTIVE 0000:3a:00.0", "efa_0:1/U ACTIVE 0000:01:00.0", "rxe0:1/E ACTIVE -")
	for _, c := range []struct {
		name, nccl string
		env        []string
		want       string
	}{
		{"by PCI address, software last", "2.30.7", nil, "mlx5_10:1 mlx5_2:1 mlx5_0:1 rxe0:1"},
		{"newest", "", nil, "mlx5_10:1 mlx5_2:1 mlx5_0:1 rxe0:1"},
		{"by name before 2.29.7", "2.29.2", nil, "mlx5_0:1 mlx5_2:1 mlx5_10:1 rxe0:1"},
		{"by name where that is wanted", "2.30.7", []string{"NCCL_IB_DEVICE_PCI_ORDER=0"}, "mlx5_0:1 mlx5_2:1 mlx5_10:1 rxe0:1"},
		{"selected", "2.30.7", []string{"NCCL_IB_HCA=mlx5_1,mlx5_2:1"}, "mlx5_10:1 mlx5_2:1"},
		{"selected, none", "2.30.7", []string{"NCCL_IB_HCA=^mlx5,rxe"}, ""},
		{"a state that is not seen", "2.30.7", []string{"NCCL_IB_HCA==mlx5_1"}, ""},
	} {
		got := portNames(HCAPorts(launch.Prediction{}, rdmaNode(usual, c.nccl, c.env...)))
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("mlx5_%d:1/I ACTIVE -", i))
	}
	for nccl, want := range map[string]int{"2.18.3": 16, "2.18.5": 32, "2.30.7": 32} {
		if got := len(HCAPorts(launch.Prediction{}, rdmaNode(ibOf(many...), nccl))); got != want {
			t.Errorf("NCCL %s takes %d of 40 ports, want %d", nccl, got, want)
		}
	}
	if got := HCAPorts((launch.Prediction{}), &facts.Node{}); got != nil {
		t.Errorf("a node that showed no adapters has %v", got)
	}
}

func TestNICs(t *testing.T) {
	dual := ibOf("mlx5_0:1/I ACTIVE 0000:18:00.0", "mlx5_1:1/I ACTIVE 0000:18:00.1", "mlx5_2:1/I ACTIVE 0000:9a:00.0", "mlx5_3:1/E ACTIVE 0000:9a:00.1",
		"mlx5_4:1/I ACTIVE 0000:b0:00.0", "mlx5_5:1/I ACTIVE 0000:b0:01.2", "mlx5_6:1/I ACTIVE 0000:b0:01.3", "rxe0:1/I ACTIVE -", "rxe1:1/I ACTIVE -")
	const apart = "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5 mlx5_6 rxe0 rxe1"
	for _, c := range []struct {
		name, nccl string
		env        []string
		want       string
	}{
		{"one card, one layer", "2.30.7", nil, "mlx5_0+mlx5_1 mlx5_2 mlx5_3 mlx5_4+mlx5_5+mlx5_6 rxe0 rxe1"},
		{"two at most", "2.23.4", nil, "mlx5_0+mlx5_1 mlx5_2 mlx5_3 mlx5_4+mlx5_5 mlx5_6 rxe0 rxe1"},
		{"virtual functions by themselves", "2.30.7", []string{"NCCL_IB_MERGE_VFS=0"}, "mlx5_0+mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5+mlx5_6 rxe0 rxe1"},
		{"not before 2.20", "2.19.4", nil, apart},
		{"not wanted", "2.30.7", []string{"NCCL_IB_MERGE_NICS=0"}, apart},
		{"wanted by another number", "2.30.7", []string{"NCCL_IB_MERGE_NICS=2"}, "mlx5_0+mlx5_1 mlx5_2 mlx5_3 mlx5_4+mlx5_5+mlx5_6 rxe0 rxe1"},
		{"not wanted either", "2.30.7", []string{"NCCL_NET_MERGE_LEVEL=LOC"}, apart},
		{"a level that 2.21 does not know", "2.21.5", []string{"NCCL_NET_MERGE_LEVEL=LOC"}, "mlx5_0+mlx5_1 mlx5_2 mlx5_3 mlx5_4+mlx5_5 mlx5_6 rxe0 rxe1"},
	} {
		var got []string
		for _, nic := range NetworkOf((launch.Prediction{}), rdmaNode(dual, c.nccl, c.env...)).nics() {
			var names []string
			for _, port := range nic {
				names = append(names, port.Adapter.Name)
			}
			got = append(got, strings.Join(names, "+"))
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
