package checks

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/launch"
)

// Nodes come in groups that talk alike, the largest first; one that showed nothing is
// in none.
func TestInterconnects(t *testing.T) {
	fleet := healthyFleet(6)
	for _, i := range []int{0, 4} {
		fleet.Nodes[i].IB.Verbs = nil
	}
	fleet.Nodes[1].NVML = nil
	fleet.Nodes[2].Reached = false
	fleet.Nodes[5].NVML, fleet.Nodes[5].IB = nil, nil
	nvlink := launch.Transport{Name: "NVLink", Detail: "NV18 between all 8 GPUs"}
	infiniband := launch.Transport{Name: "InfiniBand", Detail: "mlx5_0, mlx5_1, 2 × 400 Gbit/s, GPUDirect"}
	sockets := launch.Transport{Name: "sockets", Detail: "eth0, 100 Gbit/s", Why: "no /dev/infiniband/uverbs* leads to the adapters"}
	want := []Interconnect{
		{Nodes: []string{"w1", "w5"}, Inside: nvlink, Between: sockets},
		{Nodes: []string{"w2"}, Between: infiniband},
		{Nodes: []string{"w4"}, Inside: nvlink, Between: infiniband},
	}
	if diff := cmp.Diff(want, evaluate(fleet).Interconnect); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fleet.Launch.Accelerator = "cpu"
	if got := evaluate(fleet).Interconnect; got != nil {
		t.Errorf("where gloo talks: %+v", got)
	}
}

// A link's rate is one way and without its line code.
func TestPCIeRate(t *testing.T) {
	for link, want := range map[string]float64{
		"32.0 GT/s PCIe x16": 32e9 * 16 * 128 / 130, "5.0 GT/s PCIe x8": 32e9, "2.5 GT/s PCIe x1": 2e9, "": 0, "fast": 0, "16.0 GT/s PCIe x": 0,
	} {
		if got := pcieRate(link); got < want*0.999 || got > want*1.001 {
			t.Errorf("%q: %g bit/s, want %g", link, got, want)
		}
	}
}
