// SPDX-License-Identifier: Apache-2.0

package gpus_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/testhosts/gpus"
)

// askNVML loads the stand-in as a program loads NVML, and returns its answers to the questions of
// testdata/ask_nvml.py, without the output of NVML's start.
func askNVML(t *testing.T, scenario gpus.Machine, questions ...string) (answers string, err error) {
	t.Helper()
	cmd := nvmlCommand(t, scenario, questions...)
	out, err := cmd.CombinedOutput()
	return strings.TrimPrefix(string(out), "nvmlInit_v2:\n"), err
}

func nvmlCommand(t *testing.T, scenario gpus.Machine, questions ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	if _, err := gpus.BuildNVML(dir, scenario); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", append([]string{"testdata/ask_nvml.py", "nvmlInit_v2"}, questions...)...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, gpus.ScenarioVariable+"="+filepath.Join(dir, gpus.ScenarioName))
	return cmd
}

// named returns a new machine of the scenario with the given name.
func named(t *testing.T, name string) gpus.Machine {
	t.Helper()
	for _, scenario := range gpus.Scenarios {
		if scenario.Name == name {
			return scenario.GPUs()
		}
	}
	t.Fatalf("there is no scenario %s", name)
	return gpus.Machine{}
}

func TestNVMLAnswers(t *testing.T) {
	t.Parallel()
	spoilt := gpus.H100s(2)
	card := &spoilt.Cards[1]
	card.ECC = &gpus.ECC{Enabled: true, Corrected: 5, Uncorrected: 6, AggregateCorrected: 7, AggregateUncorrected: 8}
	card.Remapped = &gpus.Remapped{Corrected: 1, Uncorrected: 2, Failed: true}
	card.Processes = []gpus.Process{{PID: 11, Kind: "compute", Memory: 1 << 30}, {PID: 12, Kind: "graphics", Memory: 1 << 20}, {PID: 13, Kind: "compute", Memory: 1}}
	card.Throttle = []string{"sw-power-cap", "hw-thermal"}
	card.ComputeMode, card.Persistence, card.MIG, card.MIGPending = "exclusive-process", false, "disabled", "enabled"
	card.NVLinks[3] = gpus.NVLink{Down: true, Speed: 1, Kind: "gpu", Remote: "0001:02:03.4", Replays: 9, Recover: 10, CRC: 11}
	card.Fabric = &gpus.Fabric{State: 3, Status: 15, Clique: 7, Health: 77, Cluster: "01020304-0506-0708-090a-0b0c0d0e0fff"}
	card.Apart = map[int]int{0: 4}
	card.Clock.AppSM = 1234
	mig := gpus.A100s(1)
	mig.Cards[0].MIG, mig.Cards[0].MIGDevices = "enabled", []string{"1g.10gb", "3g.40gb"}
	retired := gpus.V100s(1)
	retired.Cards[0].Retired = &gpus.Retired{SingleBit: 3, DoubleBit: 1, Pending: true}

	recovering := gpus.GB200s(2)
	recovering.Cards[1].Recovery = "drain-and-reset"

	tests := []struct {
		name     string
		scenario gpus.Machine
		want     string // the expected questions with their answers
	}{
		{"machine", gpus.H100s(8), `
			nvmlSystemGetDriverVersion: 550.54.15
			nvmlSystemGetNVMLVersion: 12.550.54.15
			nvmlSystemGetCudaDriverVersion_v2: 12040
			nvmlDeviceGetCount_v2: 8
			nvmlDeviceGetName:8: 2 Invalid Argument
			nvmlShutdown:
			nvmlDeviceGetCount_v2: 1 Uninitialized`},
		{"card", gpus.H100s(8), `
			nvmlDeviceGetName:7: NVIDIA H100 80GB HBM3
			nvmlDeviceGetUUID:1: GPU-51c0ffef-5f2c-4b1e-9d30-000000000001
			nvmlDeviceGetSerial:1: 1650523000001
			nvmlDeviceGetVbiosVersion:1: 96.00.89.00.01
			nvmlDeviceGetCudaComputeCapability:1: 9 0
			nvmlDeviceGetPciInfo_v3:1: legacy=0000:43:00.0 domain=0 bus=67 device=0 id=590352606 subsystem=0 busId=00000000:43:00.0
			nvmlDeviceGetMinorNumber:5: 5
			nvmlDeviceGetNumaNodeId:4: 3 Not Supported
			nvmlDeviceGetMemoryAffinity:4:0: 2 0 0 0
			nvmlDeviceGetMemoryAffinity:4:1: 3 Not Supported
			nvmlDeviceGetDefaultApplicationsClock:0:0: 1980
			nvmlDeviceGetCpuAffinity:0: ffffffffffffff ffff000000000000 ffffffffff 0
			nvmlDeviceGetMemoryInfo:0: total=85520809984 free=84941996032 used=578813952
			nvmlDeviceGetMemoryInfo_v2:0: version=33554472 total=85520809984 reserved=577765376 free=84941996032 used=1048576
			nvmlDeviceGetMaxPcieLinkGeneration:0: 5
			nvmlDeviceGetCurrPcieLinkWidth:0: 16
			nvmlDeviceGetClockInfo:0:1: 345
			nvmlDeviceGetMaxClockInfo:0:2: 2619
			nvmlDeviceGetApplicationsClock:0:0: 3 Not Supported
			nvmlDeviceGetPowerUsage:0: 70000
			nvmlDeviceGetEnforcedPowerLimit:0: 700000
			nvmlDeviceGetPowerManagementDefaultLimit:0: 700000
			nvmlDeviceGetPowerManagementLimitConstraints:0: 200000 700000
			nvmlDeviceGetTemperature:0:0: 31
			nvmlDeviceGetTemperatureThreshold:0:1: 87
			nvmlDeviceGetCurrentClocksEventReasons:0: 1
			nvmlDeviceGetUtilizationRates:0: gpu=0 memory=0
			nvmlDeviceGetPersistenceMode:0: 1
			nvmlDeviceGetComputeMode:0: 0
			nvmlDeviceGetMigMode:0: 0 0
			nvmlDeviceGetEccMode:0: 1 1
			nvmlDeviceGetRetiredPages:0:0: 3 Not Supported
			nvmlDeviceGetComputeRunningProcesses_v3:0: 0
			nvmlDeviceGetNvLinkState:0:17: 1
			nvmlDeviceGetNvLinkState:0:18: 3 Not Supported
			nvmlDeviceGetFieldValues:0:91:90:84:137:164:138: 0 18 0 26562 0 26562 0 26562 0 26562 3 0
			nvmlDeviceGetTopologyCommonAncestor:0:gpu1: 40
			nvmlDeviceGetTopologyCommonAncestor:0:gpu4: 50
			nvmlDeviceGetP2PStatus:0:gpu4:0: 0`},
		{"spoilt card", spoilt, `
			nvmlDeviceGetTotalEccErrors:1:0:0: 5
			nvmlDeviceGetTotalEccErrors:1:1:0: 6
			nvmlDeviceGetTotalEccErrors:1:0:1: 7
			nvmlDeviceGetTotalEccErrors:1:1:1: 8
			nvmlDeviceGetRemappedRows:1: 1 2 0 1
			nvmlDeviceGetComputeRunningProcesses_v3:1: 2 pid=11 memory=1073741824 instance=4294967295 compute=4294967295 pid=13 memory=1 instance=4294967295 compute=4294967295
			nvmlDeviceGetGraphicsRunningProcesses_v3:1: 1 pid=12 memory=1048576 instance=4294967295 compute=4294967295
			nvmlDeviceGetMPSComputeRunningProcesses_v3:1: 0
			nvmlDeviceGetCurrentClocksThrottleReasons:1: 68
			nvmlDeviceGetComputeMode:1: 3
			nvmlDeviceGetPersistenceMode:1: 0
			nvmlDeviceGetMigMode:1: 0 1
			nvmlDeviceGetApplicationsClock:1:0: 1234
			nvmlDeviceGetNvLinkState:1:3: 0
			nvmlDeviceGetNvLinkErrorCounter:1:3:0: 9
			nvmlDeviceGetNvLinkErrorCounter:1:3:1: 10
			nvmlDeviceGetNvLinkErrorCounter:1:3:2: 11
			nvmlDeviceGetNvLinkRemoteDeviceType:1:3: 0
			nvmlDeviceGetNvLinkRemoteDeviceType:1:4: 2
			nvmlDeviceGetNvLinkRemotePciInfo_v2:1:3: legacy= domain=1 bus=2 device=3 id=0 subsystem=0 busId=00000001:02:03.4
			nvmlDeviceGetGpuFabricInfoV:1:2: version=33554468 cluster=0102030405060708090a0b0c0d0e0fff status=15 clique=7 state=3 health=77
			nvmlDeviceGetGpuFabricInfoV:1:4: 25 Unknown Error
			nvmlDeviceGetGpuFabricInfoV:1:3: version=50331688 cluster=0102030405060708090a0b0c0d0e0fff status=15 clique=7 state=3 health=77 summary=0
			nvmlDeviceGetGpuFabricInfo:1: cluster=0102030405060708090a0b0c0d0e0fff status=15 clique=7 state=3
			nvmlDeviceGetP2PStatus:1:gpu0:0: 4
			nvmlDeviceGetP2PStatus:0:gpu1:0: 0`},
		{"MIG", mig, `
			nvmlDeviceGetMigMode:0: 1 0
			nvmlDeviceGetMaxMigDeviceCount:0: 7
			nvmlDeviceGetName:0.mig0: NVIDIA A100-SXM4-80GB MIG 1g.10gb
			nvmlDeviceGetName:0.mig1: NVIDIA A100-SXM4-80GB MIG 3g.40gb
			nvmlDeviceGetName:0.mig2: 6 Not Found
			nvmlDeviceGetUUID:0: GPU-51c0ffee-5f2c-4b1e-9d30-000000000000`},
		{"old driver", retired, `
			nvmlDeviceGetName:0: Tesla V100-SXM2-32GB
			nvmlDeviceGetComputeRunningProcesses_v3:0: no such function
			nvmlDeviceGetMemoryInfo_v2:0: no such function
			nvmlDeviceGetRetiredPages:0:0: 3
			nvmlDeviceGetRetiredPages:0:1: 1
			nvmlDeviceGetRetiredPagesPendingStatus:0: 1
			nvmlDeviceGetRemappedRows:0: 3 Not Supported`},
		{"recovery", recovering, `
			nvmlDeviceGetFieldValues:0:230: 0 0
			nvmlDeviceGetFieldValues:1:230: 0 4`},
		{"PCIe", gpus.A100PCIes(8), `
			nvmlDeviceGetFieldValues:0:230: 3 0
			nvmlDeviceGetTopologyCommonAncestor:0:gpu1: 10
			nvmlDeviceGetTopologyCommonAncestor:1:gpu2: 40
			nvmlDeviceGetTopologyCommonAncestor:0:gpu7: 50
			nvmlDeviceGetNvLinkState:0:0: 3 Not Supported
			nvmlDeviceGetFieldValues:0:91: 3 0`},
		{"consumer cards", gpus.RTX4090s(2), `
			nvmlDeviceGetSerial:0: 3 Not Supported
			nvmlDeviceGetEccMode:0: 3 Not Supported
			nvmlDeviceGetMigMode:0: 3 Not Supported
			nvmlDeviceGetMaxMigDeviceCount:0: 0
			nvmlDeviceGetP2PStatus:0:gpu1:0: 1`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := strings.ReplaceAll(strings.TrimSpace(test.want), "\t", "") + "\n"
			var questions []string
			for line := range strings.Lines(want) {
				question, _, _ := strings.Cut(line, ": ")
				questions = append(questions, strings.TrimSuffix(strings.TrimSpace(question), ":"))
			}
			got, err := askNVML(t, test.scenario, questions...)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestNVMLTroubles(t *testing.T) {
	t.Parallel()
	const names = "nvmlDeviceGetName:0 nvmlDeviceGetName:3 nvmlDeviceGetName:7"
	tests := []struct{ scenario, questions, want string }{
		{"driver-unloaded", "nvmlDeviceGetCount_v2", "nvmlInit_v2: 9 Driver Not Loaded\nnvmlDeviceGetCount_v2: 1 Uninitialized\n"},
		{"driver-mismatch", "nvmlSystemGetNVMLVersion nvmlSystemGetDriverVersion", "nvmlInit_v2: 18 Driver/library version mismatch\nnvmlSystemGetNVMLVersion: 12.550.90.07\nnvmlSystemGetDriverVersion: 1 Uninitialized\n"},
		{"driver-unknown-error", "", "nvmlInit_v2: 999 Unknown Error\n"},
		{"driver-no-permission", "", "nvmlInit_v2: 4 Insufficient Permissions\n"},
		{"driver-gpu-lost", "", "nvmlInit_v2: 15 GPU is lost\n"},
		{"driver-no-devices", "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount_v2: 0\n"},
		{"gpu-lost", names, "nvmlDeviceGetName:0: NVIDIA H100 80GB HBM3\nnvmlDeviceGetName:3: 15 GPU is lost\nnvmlDeviceGetName:7: NVIDIA H100 80GB HBM3\n"},
		{"gpu-unbound", names, "nvmlDeviceGetName:0: NVIDIA H100 80GB HBM3\nnvmlDeviceGetName:3: NVIDIA H100 80GB HBM3\nnvmlDeviceGetName:7: 2 Invalid Argument\n"},
		{"gpu-narrow-link", "nvmlDeviceGetCurrPcieLinkWidth:3 nvmlDeviceGetMaxPcieLinkWidth:3", "nvmlDeviceGetCurrPcieLinkWidth:3: 8\nnvmlDeviceGetMaxPcieLinkWidth:3: 16\n"},
	}
	for _, test := range tests {
		t.Run(test.scenario, func(t *testing.T) {
			got, err := askNVML(t, named(t, test.scenario), strings.Fields(test.questions)...)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
	t.Run("a call that fails", func(t *testing.T) {
		scenario := gpus.L4s(2)
		scenario.Cards[1].Fails = map[string]int{"nvmlDeviceGetName": 999}
		got, err := askNVML(t, scenario, "nvmlDeviceGetName:0", "nvmlDeviceGetName:1")
		if diff := cmp.Diff("nvmlDeviceGetName:0: NVIDIA L4\nnvmlDeviceGetName:1: 999 Unknown Error\n", got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func TestNVMLCrashes(t *testing.T) {
	t.Parallel()
	answers, err := askNVML(t, named(t, "gpu-crash"), "nvmlDeviceGetName:2", "nvmlDeviceGetName:3", "nvmlDeviceGetName:4")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGSEGV {
		t.Errorf("it ended with %v", err)
	}
	if diff := cmp.Diff("nvmlDeviceGetName:2: NVIDIA H100 80GB HBM3\n", answers); diff != "" {
		t.Error(diff)
	}
}

// TestNVMLHangs checks that a call hangs. The output must end before the call, and the process must
// then sleep.
func TestNVMLHangs(t *testing.T) {
	t.Parallel()
	handle := gpus.H100s(4)
	handle.Hang = gpus.Call{Function: "nvmlDeviceGetHandleByIndex_v2", GPU: 3}
	for name, test := range map[string]struct {
		scenario  gpus.Machine
		questions []string
		want      string
	}{
		"init":   {named(t, "driver-hung"), nil, ""},
		"name":   {named(t, "gpu-hung"), []string{"nvmlDeviceGetName:2", "nvmlDeviceGetName:3"}, "nvmlInit_v2:\nnvmlDeviceGetName:2: NVIDIA H100 80GB HBM3\n"},
		"handle": {handle, []string{"nvmlDeviceGetName:2", "nvmlDeviceGetName:3"}, "nvmlInit_v2:\nnvmlDeviceGetName:2: NVIDIA H100 80GB HBM3\n"},
	} {
		cmd := nvmlCommand(t, test.scenario, test.questions...)
		var said strings.Builder
		cmd.Stdout = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitSyscall(t, cmd.Process.Pid, syscall.SYS_RT_SIGSUSPEND)
		cmd.Process.Kill()
		cmd.Wait()
		if diff := cmp.Diff(test.want, said.String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// awaitSyscall returns when a process sleeps in the given system call.
func awaitSyscall(t *testing.T, pid, number int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(call), fmt.Sprintf("%d ", number)) {
			return
		}
	}
	t.Errorf("process %d does not sleep in system call %d", pid, number)
}

func TestBuildNVMLSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	scenario := gpus.L4s(1)
	scenario.Without = []string{"nvmlShutdown"} // no other test builds this variant
	_, err := gpus.BuildNVML(t.TempDir(), scenario)
	if err == nil || !strings.Contains(err.Error(), "no C compiler (cc): install gcc and libc6-dev") {
		t.Errorf("got %v", err)
	}
}
