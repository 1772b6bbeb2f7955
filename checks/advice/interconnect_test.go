// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"preflight/checks"
	"preflight/launch/nccl"
	"preflight/testhosts/fleettest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInterconnects checks that nodes are grouped by transport, the largest group first. It also
// checks that a node without facts is in no group.
func TestInterconnects(t *testing.T) {
	fleet := fleettest.Healthy(6)
	for _, i := range []int{0, 4} {
		fleet.Nodes[i].IB.Verbs = nil
	}
	fleet.Nodes[1].NVML = nil
	fleet.Nodes[2].Reached = false
	fleet.Nodes[5].NVML, fleet.Nodes[5].IB = nil, nil
	nvlink := nccl.Transport{Name: "NVLink", Detail: "NV18 between all 8 GPUs"}
	infiniband := nccl.Transport{Name: "InfiniBand", Detail: "mlx5_0, mlx5_1, 2 × 400 Gbit/s, GPUDirect"}
	sockets := nccl.Transport{Name: "sockets", Detail: "eth0, 100 Gbit/s", Why: "no /dev/infiniband/uverbs* leads to the adapters"}
	want := []checks.Interconnect{
		{Nodes: []string{"w1", "w5"}, Inside: nvlink, Between: sockets},
		{Nodes: []string{"w2"}, Between: infiniband},
		{Nodes: []string{"w4"}, Inside: nvlink, Between: infiniband},
	}
	if diff := cmp.Diff(want, Interconnects(fleet.Nodes, fleet.Launch)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fleet.Launch.Accelerator = "cpu"
	if got := Interconnects(fleet.Nodes, fleet.Launch); got != nil {
		t.Errorf("where gloo talks: %+v", got)
	}
}
