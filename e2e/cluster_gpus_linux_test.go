// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/probe/nvml"
	"preflight/testhosts"
	"preflight/testhosts/gpus"
)

// driverDeadline is the --timeout of the runs in this file. It is long enough to distinguish a
// silent driver from a GPU that wakes up.
const driverDeadline = 8 * time.Second

// drivers lists faults of w3's GPUs, each with the only finding that must result. If check is "",
// no finding may result. The other nodes have eight healthy H100 GPUs.
var drivers = []struct {
	name    string
	change  func(*gpus.Machine)
	verdict checks.Verdict
	check   string
}{
	{"an old library tells less", func(g *gpus.Machine) {
		g.Without = []string{"nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetRemappedRows"}
	}, "", ""},
	{"the module is not loaded", func(g *gpus.Machine) { g.Module = "" }, checks.Fail, "gpu-driver-loads"},
	{"library and module differ", func(g *gpus.Machine) { g.Module = "535.161.08" }, checks.Fail, "gpu-driver-loads"},
	{"an unknown error", func(g *gpus.Machine) { g.Init = 999 }, checks.Fail, "gpu-driver-loads"},
	{"no library", func(g *gpus.Machine) { g.NoLibrary = true }, checks.Fail, "gpu-driver-loads"},
	{"no library of NVML", func(g *gpus.Machine) { g.NoNVML = true }, checks.Fail, "gpu-driver-loads"},
	{"no /dev/nvidia-uvm", func(g *gpus.Machine) { g.NoUVM = true }, checks.Warn, "gpu-driver-loads"},
	{"no permission", func(g *gpus.Machine) { g.Init = 4 }, checks.Fail, "gpu-driver-loads"},
	{"no device", func(g *gpus.Machine) { g.Init = 6 }, checks.Fail, "gpu-driver-loads"},
	{"init hangs", func(g *gpus.Machine) { g.Hang = gpus.Call{Function: "nvmlInit_v2", GPU: -1} }, checks.Fail, "gpu-driver-loads"},
	{"one GPU's UUID hangs", func(g *gpus.Machine) { g.Hang = gpus.Call{Function: "nvmlDeviceGetUUID", GPU: 3} }, checks.Fail, "gpu-driver-loads"},
	{"a call crashes", func(g *gpus.Machine) { g.Crash = gpus.Call{Function: "nvmlDeviceGetName", GPU: 5} }, checks.Fail, "gpu-driver-loads"},
	{"a GPU fell off the bus", func(g *gpus.Machine) { g.Cards[3].Lost = true }, checks.Fail, "gpu-healthy"},
	{"a GPU is not there", func(g *gpus.Machine) { g.Cards = g.Cards[:7] }, checks.Fail, "slots-fit"},
	{"errors that ECC could not correct", func(g *gpus.Machine) { g.Cards[2].ECC.Uncorrected, g.Cards[2].ECC.AggregateUncorrected = 3, 3 }, checks.Fail, "gpu-healthy"},
	{"no spare rows are left", func(g *gpus.Machine) { g.Cards[2].Remapped.Failed = true }, checks.Fail, "gpu-healthy"},
	{"somebody uses a GPU", func(g *gpus.Machine) {
		g.Cards[1].MemoryUsed = 40 << 30
		g.Cards[1].Processes = []gpus.Process{{PID: 4242, Name: "python3", Kind: "compute", Memory: 40 << 30}}
	}, checks.Fail, "gpu-idle"},
	{"compute mode prohibited", func(g *gpus.Machine) { g.Cards[1].ComputeMode = "prohibited" }, checks.Fail, "gpu-mode"},
	{"MIG", func(g *gpus.Machine) {
		g.Cards[0].MIG, g.Cards[0].MIGPending, g.Cards[0].MIGDevices = "enabled", "enabled", []string{"1g.10gb"}
	}, checks.Fail, "gpu-mode"},
	{"a GPU is too hot", func(g *gpus.Machine) {
		g.Cards[6].Throttle, g.Cards[6].Celsius = []string{"hw-slowdown", "hw-thermal"}, 89
	}, checks.Warn, "gpu-throttle"},
	{"less power than it could have", func(g *gpus.Machine) { g.Cards[6].Power.Limit = 300 }, checks.Warn, "gpu-throttle"},
	{"links are down", func(g *gpus.Machine) { g.Cards[4].NVLinks[2].Down, g.Cards[4].NVLinks[9].Down = true, true }, checks.Fail, "gpu-links"},
	{"half the lanes", func(g *gpus.Machine) { g.Cards[4].Link.Width = 8 }, checks.Warn, "gpu-links"},
	{"two GPUs cannot reach each other", func(g *gpus.Machine) {
		g.Cards[0].Apart, g.Cards[1].Apart = map[int]int{1: 4}, map[int]int{0: 4}
	}, checks.Fail, "gpu-peer-access"},
	{"the fabric manager does not run", func(g *gpus.Machine) {
		g.FabricManagerRuns = false
		for i := range g.Cards {
			g.Cards[i].Fabric = &gpus.Fabric{State: 1}
		}
	}, checks.Fail, "gpu-fabric"},
	{"another fabric manager than driver", func(g *gpus.Machine) { g.FabricManager = "535.161.08" }, checks.Warn, "gpu-fabric"},
	{"another driver", func(g *gpus.Machine) {
		g.Driver, g.Module, g.FabricManager = "535.161.08", "535.161.08", "535.161.08"
	}, checks.Warn, "gpu-driver-same"},
	{"a driver too old for torch", func(g *gpus.Machine) {
		g.Driver, g.Module, g.FabricManager, g.CUDA = "470.239.06", "470.239.06", "470.239.06", "11.4"
	}, checks.Fail, "gpu-driver-runs-cuda"},
	{"another model", func(g *gpus.Machine) {
		*g = gpus.A100s(8)
		g.Driver, g.Module, g.FabricManager, g.CUDA, g.OpenModule = "550.54.15", "550.54.15", "550.54.15", "12.4", true
	}, checks.Warn, "gpu-model-same"},
}

// machines maps names to kinds of healthy fleets, each with a torch that supports its GPUs. Two
// kinds have expected findings. GeForce cards have no persistence mode. The stand-in for the driver
// has no IMEX channel and service, which GB200 trays need.
var machines = map[string]struct {
	gpus        gpus.Machine
	torch, cuda string
	want        []string
}{
	"A100 behind switches":             {gpus.A100s(8), "2.5.1+cu121", "12.1", nil},
	"A100 on PCIe":                     {gpus.A100PCIes(4), "2.5.1+cu121", "12.1", nil},
	"L4":                               {gpus.L4s(2), "2.5.1+cu124", "12.4", nil},
	"GB200, which has no IMEX here":    {gpus.GB200s(4), "2.7.1+cu128", "12.8", []string{"fail gpu-imex [w1 w2 w3 w4]", "fail gpu-imex [w1 w2 w3 w4]"}},
	"V100 with a driver of long ago":   {gpus.V100s(8), "1.13.1+cu117", "11.7", nil},
	"GeForce, which reach nobody else": {gpus.RTX4090s(4), "2.5.1+cu124", "12.4", []string{"warn gpu-mode [w1 w2 w3 w4]"}},
}

// TestGPUs queries stand-in drivers on real hosts. The real dynamic linker loads the library in a
// child process of the agent.
func TestGPUs(t *testing.T) {
	cluster := raise(t, "gpus")
	deliver(t, cluster, static(t))
	for _, node := range cluster.Nodes {
		if _, err := node.SetDriver(gpus.H100s(8)); err != nil {
			t.Fatal(err)
		}
		if _, err := node.CUDATorch("2.5.1+cu124", "12.4"); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("healthy", func(t *testing.T) {
		report := judgeWith(t, cluster, binary(t), "--accelerator", "cuda")
		if diff := cmp.Diff([]string{}, short(report.Findings)); diff != "" || report.ExitCode != 0 || report.CannotSee != "" {
			t.Errorf("exit code %d, cannot see %q, findings (-want +got):\n%s", report.ExitCode, report.CannotSee, diff)
		}
		for _, node := range report.Nodes {
			if node.NVML == nil || node.NVML.Source != "nvml" || len(node.NVML.Cards) != 8 || node.NVML.Cards[7].Name != "NVIDIA H100 80GB HBM3" {
				t.Errorf("%s reported %+v", node.Name, node.NVML)
			}
		}
	})
	t.Run("built without cgo", func(t *testing.T) {
		report := judgeWith(t, cluster, static(t), "--accelerator", "cuda")
		if report.Verdict != checks.Unknown || report.ExitCode != 2 || !strings.Contains(report.CannotSee, "NVIDIA") {
			t.Errorf("%s, exit code %d, cannot see %q; want unknown, 2, and that it cannot see GPUs", report.Verdict, report.ExitCode, report.CannotSee)
		}
		for _, outcome := range report.Checks {
			if strings.HasPrefix(outcome.Check, "gpu-") && outcome.Verdict == checks.Pass {
				t.Errorf("%s passes", outcome.Check)
			}
		}
		for _, node := range report.Nodes {
			if node.NVML != nil || node.Missing[facts.SectionNVML] != nvml.WithoutCgo {
				t.Errorf("%s reported %+v, misses %q", node.Name, node.NVML, node.Missing[facts.SectionNVML])
			}
		}
	})
	for name, machine := range machines {
		t.Run(name, func(t *testing.T) {
			for _, node := range cluster.Nodes {
				plantOn(t, cluster, node.Name, driver(machine.gpus))
				plantOn(t, cluster, node.Name, func(n *testhosts.Node) (testhosts.Undo, error) {
					return n.CUDATorch(machine.torch, machine.cuda)
				})
			}
			report := judgeWith(t, cluster, binary(t), "--accelerator", "cuda", "--num_gpus", strconv.Itoa(len(machine.gpus.Cards)))
			if diff := cmp.Diff(append([]string{}, machine.want...), short(report.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
				for _, f := range report.Findings {
					t.Logf("%s %v: %s; got %s", f.Check, f.Nodes, f.Summary, f.Got)
				}
			}
		})
	}
	for _, d := range drivers {
		t.Run(d.name, func(t *testing.T) {
			sick := gpus.H100s(8)
			d.change(&sick)
			plantOn(t, cluster, "w3", driver(sick))
			want := []string{}
			if d.check != "" {
				want = append(want, fmt.Sprintf("%s %s [w3]", d.verdict, d.check))
			}
			inTime(t, driverDeadline+slack, func() {
				report := judgeWith(t, cluster, binary(t), "--accelerator", "cuda", "--timeout", driverDeadline.String())
				if diff := cmp.Diff(want, short(report.Findings)); diff != "" {
					t.Errorf("findings (-want +got):\n%s", diff)
				}
				for _, finding := range report.Findings {
					if len(finding.Fix)+len(finding.Notes) == 0 {
						t.Errorf("%s names no way out", finding.Check)
					}
				}
			})
		})
	}
}

// driver returns a fault that gives a node the given GPUs and their driver.
func driver(gpus gpus.Machine) plant {
	return func(n *testhosts.Node) (testhosts.Undo, error) { return n.SetDriver(gpus) }
}
