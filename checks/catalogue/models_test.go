// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/testhosts/fleettest"
)

// TestModelsAreHealthy expects no findings on the machines of testdata/models.
func TestModelsAreHealthy(t *testing.T) {
	recorded, err := filepath.Glob("testdata/models/*.json")
	if err != nil || len(recorded) != 7 {
		t.Fatalf("%d models, %v", len(recorded), err)
	}
	for _, path := range recorded {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			report := judged(modelFleet(t, path), Catalogue...)
			if len(report.Findings) > 0 || report.ExitCode != 0 {
				t.Errorf("exit %d:\n%s", report.ExitCode, fleettest.Spelled(report.Findings))
			}
			for _, outcome := range report.Checks {
				if strings.HasPrefix(outcome.Check, "gpu-") && outcome.Verdict == checks.Skip && !slices.Contains(maySkip, outcome.Check) {
					t.Errorf("%s looked at nothing: %s", outcome.Check, outcome.Reason)
				}
			}
		})
	}
}

// maySkip lists the GPU checks that need the smoke test, or hardware that not every machine has.
var maySkip = []string{"gpu-fabric", "gpu-imex", "gpu-direct", "gpu-computes", "gpu-copies"}

// TestFaultsOfModels plants a fault in one GPU of one of these machines, and expects findings for
// that machine only.
func TestFaultsOfModels(t *testing.T) {
	faults := map[string]func(*facts.Card){
		"lost": func(c *facts.Card) {
			c.Failure = &facts.NVMLFailure{Kind: facts.FailureLost, Code: 15, Text: "GPU is lost"}
		},
		"uncorrectable errors": func(c *facts.Card) { c.ECC.Uncorrected = new(int64(3)) },
		"rows that stay bad":   func(c *facts.Card) { c.Remapped.Failed = true },
		"another model":        func(c *facts.Card) { c.Name = "NVIDIA V100"; c.Memory /= 2 },
		"cut into instances":   func(c *facts.Card) { c.MIG = "enabled" },
		"for nobody":           func(c *facts.Card) { c.ComputeMode = "prohibited" },
		"narrow":               func(c *facts.Card) { c.Link.Width = 4 },
		"power brake":          func(c *facts.Card) { c.Throttle = []string{"hw-power-brake"} },
	}
	recorded, _ := filepath.Glob("testdata/models/*.json") // TestModelsAreHealthy checks the error
	for _, path := range recorded {
		for name, plant := range faults {
			fleet := modelFleet(t, path)
			plant(&fleet.Nodes[1].NVML.Cards[2])
			found := judged(fleet, Catalogue...).Findings
			if len(found) == 0 || slices.ContainsFunc(found, func(f checks.Finding) bool { return !slices.Equal(f.Nodes, []string{"w2"}) }) {
				t.Errorf("%s, %s: of w2 alone something is to be found, and it is\n%s", filepath.Base(path), name, fleettest.Spelled(found))
			}
		}
	}
}

// modelFleet returns the healthy fleet with the GPUs of a stand-in from testdata/models, and a
// matching torch. The stand-in describes one machine, so each node gets its own values for facts
// that differ between machines.
func modelFleet(t *testing.T, path string) fleettest.Fleet {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fleet := fleettest.Healthy(3)
	for i := range fleet.Nodes {
		node, seen := &fleet.Nodes[i], facts.NVML{Asked: true}
		if err := json.Unmarshal(text, &seen); err != nil {
			t.Fatal(err)
		}
		first := seen.Cards[0]
		if first.Name == "NVIDIA B200" {
			seen.Driver = "570.124.06" // the stand-in's driver 560.35.03 does not support B200, and is known to be bad
		}
		if !hostfile.Before(first.Capability, "10") {
			forBlackwell(node)
		}
		if strings.HasPrefix(first.Name, "NVIDIA GB") {
			node.GPU.IMEX = &facts.IMEX{Channels: []facts.DeviceNode{{Path: "/dev/nvidia-caps-imex-channels/channel0"}}, Installed: true, Running: true, State: "active"}
		}
		count := len(seen.Cards)
		node.NVML, node.Slots = &seen, count
		fleet.Launch.Hosts[i].Slots = fleet.Launch.Hosts[i].Slots[:count]
		node.GPU.Module, node.GPU.Libcuda[0].Version, node.GPU.FabricManager.Version = seen.Driver, seen.Driver, seen.Driver
		node.GPU.Devices, node.GPU.Driver, node.GPU.OnBus, node.GPU.Doors = nil, nil, nil, node.GPU.Doors[:2]
		for j := range seen.Cards {
			machineOf(node, &seen.Cards[j], i)
		}
	}
	return fleet
}

// forBlackwell gives a node versions of torch and NCCL that support Blackwell GPUs.
func forBlackwell(node *facts.Node) {
	python := node.Python
	python.Torch.Version, python.Torch.CUDA, python.Torch.NCCLWheel = "2.8.0+cu128", "12.8", "2.27.3"
	python.Packages["torch"], python.Packages["nvidia-nccl-cu12"] = "2.8.0+cu128", "2.27.3"
	python.NCCL[0].Version, python.NCCL[0].CUDA = "2.27.3", "12.8"
	python.NCCL[0].Code = []string{"sm_50", "sm_60", "sm_61", "sm_70", "sm_80", "sm_90", "sm_100", "sm_120", "compute_120"}
	node.Toolchain.CUDA = "12.8"
}

// machineOf sets the facts that differ between cards, and what the kernel and the bus report about
// the cards.
func machineOf(node *facts.Node, card *facts.Card, machine int) {
	card.UUID, card.Serial = fmt.Sprintf("%s-%d", card.UUID, machine), fmt.Sprintf("%s-%d", card.Serial, machine)
	if card.Fabric != nil && !strings.HasPrefix(card.Name, "NVIDIA GB") {
		card.Fabric.Cluster = "" // only racks with NVLink connect machines
	}
	device, gpu := fmt.Sprintf("/dev/nvidia%d", *card.Minor), node.GPU
	gpu.Devices, gpu.Doors, gpu.Driver = append(gpu.Devices, device), append(gpu.Doors, facts.DeviceNode{Path: device}), append(gpu.Driver, card.Address)
	gpu.OnBus = append(gpu.OnBus, facts.PCIGPU{
		Address: card.Address, Driver: "nvidia", NUMANode: *card.NUMANode, Path: []string{"pci0000:00", "0000:00:01.0", card.Address},
	})
}
