// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

func TestNumbersOfAMask(t *testing.T) {
	for _, test := range []struct {
		mask []uint
		want string
	}{
		{nil, ""},
		{[]uint{0, 0}, ""},
		{[]uint{1}, "0"},
		{[]uint{0xffffffff, 0xffffffff}, "0-31,64-95"},
		{[]uint{1 << 63, 1}, "63-64"},
		{[]uint{0b1011_0000}, "4-5,7"},
	} {
		if got := facts.Ranges(members(test.mask)); got != test.want {
			t.Errorf("%x is %q, want %q", test.mask, got, test.want)
		}
	}
}

func TestAddressIsSpelledAsInSysfs(t *testing.T) {
	for want, pci := range map[string]nvml.PciInfo{
		"0000:4e:00.0":  {Bus: 0x4e},
		"10000:01:1f.0": {Domain: 0x10000, Bus: 1, Device: 0x1f}, // an address as behind Intel's VMD
	} {
		if got := address(pci); got != want {
			t.Errorf("address %q, want %q", got, want)
		}
	}
}

func TestPlaceIsOneNode(t *testing.T) {
	one := 1
	for _, test := range []struct {
		nodes uint
		want  *int
	}{{0b10, &one}, {0b11, nil}, {0, nil}} {
		device := &mock.Device{
			GetCpuAffinityFunc:    func(int) ([]uint, nvml.Return) { return []uint{0xff}, nvml.SUCCESS },
			GetMemoryAffinityFunc: func(int, nvml.AffinityScope) ([]uint, nvml.Return) { return []uint{test.nodes}, nvml.SUCCESS },
		}
		c, _ := asked(0, device, "nvmlDeviceGetCpuAffinity", "nvmlDeviceGetMemoryAffinity")
		c.place()
		if diff := cmp.Diff(facts.Card{CPUs: "0-7", NUMANode: test.want}, c.seen); diff != "" {
			t.Errorf("nodes %#b (-want +got):\n%s", test.nodes, diff)
		}
	}
}

func TestMemoryOfAnOldDriver(t *testing.T) {
	device := &mock.Device{
		GetMemoryInfoFunc:    func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 100, Used: 9}, nvml.SUCCESS },
		GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, nvml.ERROR_FUNCTION_NOT_FOUND },
	}
	c, _ := asked(0, device, "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")
	c.memory()
	used := int64(9)
	if diff := cmp.Diff(facts.Card{Memory: 100, MemoryUsed: &used}, c.seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestApplicationClocksThatSomebodySet(t *testing.T) {
	const ask, usual = "nvmlDeviceGetApplicationsClock", "nvmlDeviceGetDefaultApplicationsClock"
	for name, test := range map[string]struct {
		set  uint32
		has  []string
		want int
	}{
		"as it came":                 {1095, []string{ask, usual}, 0},
		"lower":                      {900, []string{ask, usual}, 900},
		"no default, at its most":    {1410, []string{ask}, 0},
		"no default, below its most": {900, []string{ask}, 900},
		"not known":                  {900, nil, 0},
	} {
		device := &mock.Device{
			GetMaxClockInfoFunc:             func(nvml.ClockType) (uint32, nvml.Return) { return 1410, nvml.SUCCESS },
			GetApplicationsClockFunc:        func(nvml.ClockType) (uint32, nvml.Return) { return test.set, nvml.SUCCESS },
			GetDefaultApplicationsClockFunc: func(nvml.ClockType) (uint32, nvml.Return) { return 1095, nvml.SUCCESS },
		}
		c, _ := asked(0, device, append(test.has, "nvmlDeviceGetMaxClockInfo")...)
		c.clocks()
		if got := c.seen.Clock.AppSM; got != test.want {
			t.Errorf("%s: %d MHz, want %d", name, got, test.want)
		}
	}
}

func TestThrottleReasonsByEitherName(t *testing.T) {
	device := &mock.Device{
		GetCurrentClocksEventReasonsFunc:    func() (uint64, nvml.Return) { return 0x1, nvml.SUCCESS },
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) { return 0x1ff, nvml.SUCCESS },
	}
	for name, want := range map[string][]string{
		"nvmlDeviceGetCurrentClocksEventReasons":    {"gpu-idle"},
		"nvmlDeviceGetCurrentClocksThrottleReasons": {"gpu-idle", "applications-clocks", "sw-power-cap", "hw-slowdown", "sync-boost", "sw-thermal", "hw-thermal", "hw-power-brake", "display-clocks"},
		"neither": nil,
	} {
		c, _ := asked(0, device, name)
		c.throttle()
		if diff := cmp.Diff(want, c.seen.Throttle); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestInstancesOfAGPUThatWasCut(t *testing.T) {
	instance := &mock.Device{GetNameFunc: func() (string, nvml.Return) { return "NVIDIA A100-SXM4-40GB MIG 1g.5gb", nvml.SUCCESS }}
	device := &mock.Device{
		GetMigModeFunc:           func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_DISABLE, nvml.SUCCESS },
		GetMaxMigDeviceCountFunc: func() (int, nvml.Return) { return 7, nvml.SUCCESS },
		GetMigDeviceHandleByIndexFunc: func(index int) (nvml.Device, nvml.Return) {
			if index == 1 || index == 4 {
				return instance, nvml.SUCCESS
			}
			return nil, nvml.ERROR_NOT_FOUND
		},
	}
	c, _ := asked(0, device, "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetName")
	c.modes()
	c.instances()
	want := facts.Card{MIG: "enabled", MIGPending: "disabled", MIGDevices: []string{"1g.5gb", "1g.5gb"}}
	if diff := cmp.Diff(want, c.seen); diff != "" || c.failure != nil {
		t.Errorf("failure %+v (-want +got):\n%s", c.failure, diff)
	}
}

func TestRecoveryThatTheDriverWants(t *testing.T) {
	for action, want := range map[uint32]string{0: "none", 1: "reset", 2: "reboot", 3: "drain", 4: "drain-and-reset", 5: "recover-imex", 6: "bus-reset", 7: "system-reboot", 8: "other"} {
		for ret, want := range map[nvml.Return]string{nvml.SUCCESS: want, nvml.ERROR_NOT_SUPPORTED: "", nvml.ERROR_INVALID_ARGUMENT: ""} {
			device := &mock.Device{GetFieldValuesFunc: func(values []nvml.FieldValue) nvml.Return {
				if len(values) != 1 || values[0].FieldId != 230 {
					t.Fatalf("asked for %+v", values)
				}
				values[0].ValueType, values[0].NvmlReturn = uint32(nvml.VALUE_TYPE_UNSIGNED_INT), uint32(ret)
				binary.NativeEndian.PutUint32(values[0].Value[:], action)
				return nvml.SUCCESS
			}}
			c, _ := asked(0, device, "nvmlDeviceGetFieldValues")
			if c.recovery(); c.seen.Recovery != want {
				t.Errorf("%d, code %d: %q, want %q", action, ret, c.seen.Recovery, want)
			}
		}
	}
}

func TestProcessIsCountedOnce(t *testing.T) {
	process := func(pid uint32, memory uint64) nvml.ProcessInfo {
		return nvml.ProcessInfo{Pid: pid, UsedGpuMemory: memory}
	}
	device := &mock.Device{
		GetComputeRunningProcessesFunc:    func() ([]nvml.ProcessInfo, nvml.Return) { return []nvml.ProcessInfo{process(10, 512)}, nvml.SUCCESS },
		GetMPSComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED },
		GetGraphicsRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{process(10, 512), process(11, notAvailable)}, nvml.SUCCESS
		},
	}
	c, _ := asked(0, device, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3")
	c.processes()
	memory := int64(512)
	want := []facts.GPUUser{{PID: 10, Kind: "compute", Memory: &memory}, {PID: 11, Kind: "graphics"}}
	if diff := cmp.Diff(want, c.seen.Processes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c, _ = asked(0, device)
	if c.processes(); c.seen.Processes != nil {
		t.Errorf("%+v of a driver that tells none, want nil", c.seen.Processes)
	}
	device.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
	device.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
	c, _ = asked(0, device, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3")
	if c.processes(); c.seen.Processes != nil {
		t.Errorf("%+v of a driver that refuses to tell them, want nil", c.seen.Processes)
	}
}
