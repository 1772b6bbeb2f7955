// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"slices"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/checks/knownbad"
	"preflight/facts"
	"preflight/testhosts/fleettest"
)

// TestNothingIsFoundOnHealthyAMD expects no findings, no words about NVIDIA and no unknowns.
func TestNothingIsFoundOnHealthyAMD(t *testing.T) {
	for _, size := range []int{1, 4} {
		report := judged(fleettest.HealthyAMD(size), Catalogue...)
		if len(report.Findings) > 0 || report.ExitCode != 0 {
			t.Errorf("%d nodes: exit %d:\n%s", size, report.ExitCode, fleettest.Spelled(report.Findings))
		}
		for _, id := range []string{"slots-fit", "gpu-driver-loads", "gpu-count", "gpu-model-same", "gpu-driver-same", "gpu-driver-runs-cuda", "gpu-healthy", "gpu-idle", "gpu-links", "torch-same", "nccl-same"} {
			if at := slices.IndexFunc(report.Checks, func(o checks.Outcome) bool { return o.Check == id }); report.Checks[at].Verdict != "pass" {
				t.Errorf("%d nodes: %s is %s: %s", size, id, report.Checks[at].Verdict, report.Checks[at].Reason)
			}
		}
	}
}

// TestKnownBadIsNotOfAMD checks that known defects of NCCL and of NVIDIA's driver are not reported
// for RCCL and AMD's driver with the same version number.
func TestKnownBadIsNotOfAMD(t *testing.T) {
	for name, change := range map[string]func(*facts.Node){
		"driver": func(n *facts.Node) { n.NVML.Driver = "565.57.01" },
		"RCCL":   func(n *facts.Node) { n.Python.NCCL[0].Version = "2.25.1" },
	} {
		fleet := fleettest.HealthyAMD(2)
		for i := range fleet.Nodes {
			change(&fleet.Nodes[i])
		}
		if report := alone(knownbad.KnownBad, fleet, checks.DefaultPolicy()); len(report.Findings) > 0 {
			t.Errorf("%s:\n%s", name, fleettest.Spelled(report.Findings))
		}
	}
}

// TestAMDFaults checks that each fault is found on its node, only by the expected checks, and
// without words about NVIDIA.
func TestAMDFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*facts.Node)
		found string // the expected checks
	}{
		"another driver": {func(n *facts.Node) { n.NVML.Driver = "6.3.6" }, "gpu-driver-same"},
		"another ROCm":   {func(n *facts.Node) { n.GPU.ROCm = "6.1.0-82" }, "gpu-driver-same"},
		"another firmware": {func(n *facts.Node) {
			n.NVML.Cards[5].Firmware = map[string]string{"mec": "0x00000081", "sos": "0x003600b9", "smc": "0x00557700"}
		}, "gpu-model-same"},
		"another VBIOS": {func(n *facts.Node) { n.NVML.Cards[5].VBIOS = "113-M3000100-100" }, "gpu-model-same"},
		"another model": {func(n *facts.Node) { n.NVML.Cards[5].Name = "AMD Instinct MI308X" }, "gpu-model-same"},
		"errors":        {func(n *facts.Node) { n.NVML.Cards[3].ECC.Uncorrected = new(int64(2)) }, "gpu-healthy"},
		"no counters": {func(n *facts.Node) {
			n.NVML.Cards[3].ECC, n.NVML.Cards[3].Refused = nil, []facts.NVMLFailure{{Kind: facts.FailureOther, Call: facts.CallRAS, Text: "Query currently inaccessible"}}
		}, "gpu-healthy"},
		"a closed door":       {func(n *facts.Node) { n.GPU.Doors[0].Problem = "permission denied" }, "gpu-driver-loads"},
		"no door":             {func(n *facts.Node) { n.GPU.Doors[0].Problem = "no such file or directory" }, "gpu-driver-loads"},
		"a GPU's closed door": {func(n *facts.Node) { n.GPU.Doors[8].Problem = "permission denied" }, "gpu-driver-loads"},
		"no module": {func(n *facts.Node) {
			n.NVML = &facts.NVML{Source: facts.SourceAMD, Asked: true, Failure: &facts.NVMLFailure{Kind: facts.FailureNoDriver, Text: "the kernel module amdgpu is not loaded"}}
		}, "gpu-driver-loads"},
		"a lost GPU": {func(n *facts.Node) { n.NVML.Cards = n.NVML.Cards[:7] }, "gpu-count"},
		"a missing card": {func(n *facts.Node) {
			n.NVML.Cards, n.GPU.Devices, n.GPU.Doors, n.GPU.OnBus = n.NVML.Cards[:7], n.GPU.Devices[:7], n.GPU.Doors[:8], n.GPU.OnBus[:7]
		}, "slots-fit"},
		"a GPU nobody drives": {func(n *facts.Node) {
			n.NVML.Cards, n.GPU.Devices, n.GPU.Doors = n.NVML.Cards[:7], n.GPU.Devices[:7], n.GPU.Doors[:8]
			n.GPU.OnBus[7].Driver = ""
		}, "gpu-driver-loads"},
		"a missing XGMI link": {func(n *facts.Node) { n.NVML.Cards[2].NVLinks.Down = []int{6} }, "gpu-links"},
		"a narrow PCIe link":  {func(n *facts.Node) { n.NVML.Cards[2].Link.Width = 8 }, "gpu-links"},
		"a job": {func(n *facts.Node) {
			n.NVML.Cards[2].Processes = []facts.GPUUser{{PID: 4711, Name: "python", User: "eve", Kind: "compute", Memory: new(int64(8 << 30))}}
		}, "gpu-idle"},
		"memory of nobody": {func(n *facts.Node) { n.NVML.Cards[2].MemoryUsed = new(int64(80 << 30)) }, "gpu-idle"},
		"another RCCL":     {func(n *facts.Node) { n.Python.NCCL[0].Version = "2.18.3" }, "nccl-same"},
		"a torch for CUDA": {func(n *facts.Node) {
			n.Python.Torch = &facts.Torch{Version: "2.5.1+cu124", CUDA: "12.4"}
			n.Python.Packages["torch"] = "2.5.1+cu124"
		}, "gpu-driver-runs-cuda torch-same"},
		"hidden by HIP": {func(n *facts.Node) {
			n.Env.Vars = append(slices.Clone(n.Env.Vars), facts.Setting{Name: "HIP_VISIBLE_DEVICES", Value: "0,1", Source: "environment"})
		}, "slots-fit"},
		"hidden by ROCr": {func(n *facts.Node) {
			n.Env.Vars = append(slices.Clone(n.Env.Vars), facts.Setting{Name: "ROCR_VISIBLE_DEVICES", Value: "", Source: "environment"})
		}, "slots-fit"},
	} {
		t.Run(name, func(t *testing.T) {
			fleet := fleettest.HealthyAMD(4)
			c.fault(&fleet.Nodes[2])
			report := judged(fleet, Catalogue...)
			var found []string
			for _, f := range report.Findings {
				if !slices.Contains(found, f.Check) {
					found = append(found, f.Check)
				}
				if diff := strings.Join(f.Nodes, " "); diff != "w3" {
					t.Errorf("%s is found on %q", f.Check, diff)
				}
				wellSpoken(t, f)
				for _, text := range slices.Concat([]string{f.Summary, f.Want, f.WouldSee}, f.Fix, f.Notes) {
					for _, word := range []string{"nvidia", "NVIDIA", "NVLink", "CUDA"} {
						if strings.Contains(text, word) && name != "a torch for CUDA" {
							t.Errorf("%s says %q", f.Check, text)
						}
					}
				}
			}
			slices.Sort(found)
			if got := strings.Join(found, " "); got != c.found {
				t.Errorf("found by %q, want %q:\n%s", got, c.found, fleettest.Spelled(report.Findings))
			}
		})
	}
}
