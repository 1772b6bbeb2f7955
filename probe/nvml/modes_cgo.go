// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvml

import (
	"cmp"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"preflight/facts"
)

func (c *card) modes() {
	if mode, ok := result(c.caller, c.device.GetPersistenceMode, "nvmlDeviceGetPersistenceMode"); ok {
		c.seen.Persistence = new(mode == nvml.FEATURE_ENABLED)
	}
	if mode, ok := result(c.caller, c.device.GetComputeMode, "nvmlDeviceGetComputeMode"); ok {
		switch mode {
		case nvml.COMPUTEMODE_DEFAULT:
			c.seen.ComputeMode = "default"
		case nvml.COMPUTEMODE_PROHIBITED:
			c.seen.ComputeMode = "prohibited"
		default: // one process; the obsolete mode for one thread means the same
			c.seen.ComputeMode = "exclusive-process"
		}
	}
	if mode, ok := result(c.caller, both(c.device.GetMigMode), "nvmlDeviceGetMigMode"); ok {
		c.seen.MIG, c.seen.MIGPending = switched(mode.first), switched(mode.second)
	}
}

// recoveries maps nvmlDeviceGpuRecoveryAction_t (nvml.h) to names of the actions that a driver may
// ask for.
var recoveries = map[int64]string{
	int64(nvml.GPU_RECOVERY_ACTION_NONE):            "none",
	int64(nvml.GPU_RECOVERY_ACTION_GPU_RESET):       "reset",
	int64(nvml.GPU_RECOVERY_ACTION_NODE_REBOOT):     "reboot",
	int64(nvml.GPU_RECOVERY_ACTION_DRAIN_P2P):       "drain",
	int64(nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET): "drain-and-reset",
	// These values are from drivers 595 and 615. The go-nvml release that preflight uses does not
	// have them.
	5: "recover-imex",
	6: "bus-reset",
	7: "system-reboot",
}

func (c *card) recovery() {
	if values := c.fields(field(nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, 0)); values != nil && values[0].reported {
		c.seen.Recovery = cmp.Or(recoveries[values[0].value], "other")
	}
}

func switched(mode int) string {
	if mode == nvml.DEVICE_MIG_ENABLE {
		return "enabled"
	}
	return "disabled"
}

// instances lists the parts into which a GPU was divided. NVML has slots for the maximum number of
// parts, and answers "not found" for empty slots.
func (c *card) instances() {
	if c.seen.MIG != "enabled" {
		return
	}
	room, _ := result(c.caller, c.device.GetMaxMigDeviceCount, "nvmlDeviceGetMaxMigDeviceCount")
	for index := range room {
		if c.symbol("nvmlDeviceGetMigDeviceHandleByIndex") == "" || c.lost() {
			return
		}
		c.announce("nvmlDeviceGetMigDeviceHandleByIndex")
		instance, ret := c.device.GetMigDeviceHandleByIndex(index)
		if ret == nvml.ERROR_NOT_FOUND || !c.took("nvmlDeviceGetMigDeviceHandleByIndex", ret) {
			continue
		}
		// such as "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
		if name, ok := result(c.caller, instance.GetName, "nvmlDeviceGetName"); ok {
			c.seen.MIGDevices = append(c.seen.MIGDevices, name[strings.LastIndex(name, " ")+1:])
		}
	}
}

// userKinds lists the kinds of processes, in the order in which they are read. A process that uses
// the GPU for graphics and for computing is counted once.
var userKinds = []struct {
	kind, call string
	ask        func(nvml.Device) ([]nvml.ProcessInfo, nvml.Return)
}{
	{"compute", "nvmlDeviceGetComputeRunningProcesses", nvml.Device.GetComputeRunningProcesses},
	{"mps", "nvmlDeviceGetMPSComputeRunningProcesses", nvml.Device.GetMPSComputeRunningProcesses},
	{"graphics", "nvmlDeviceGetGraphicsRunningProcesses", nvml.Device.GetGraphicsRunningProcesses},
}

// notAvailable is the value of NVML_VALUE_NOT_AVAILABLE (nvml.h).
const notAvailable = ^uint64(0)

// processes lists the processes of the whole machine, as far as the driver shows them to this
// session. Other code reads the owners of the processes. If the driver refuses one kind and has no
// processes of the other kinds, the result is nil. An empty list would mean that no process uses
// the GPU.
func (c *card) processes() {
	known := map[uint32]bool{}
	refused := len(c.refused)
	for _, users := range userKinds {
		running, ok := result(c.caller, bind(users.ask, c.device), users.call+"_v3", users.call+"_v2", users.call)
		if !ok {
			continue
		}
		if c.seen.Processes == nil {
			c.seen.Processes = []facts.GPUUser{}
		}
		for _, process := range running {
			if known[process.Pid] {
				continue
			}
			known[process.Pid] = true
			user := facts.GPUUser{PID: int(process.Pid), Kind: users.kind}
			if process.UsedGpuMemory != notAvailable {
				user.Memory = new(int64(process.UsedGpuMemory))
			}
			c.seen.Processes = append(c.seen.Processes, user)
		}
	}
	if len(c.refused) > refused && len(c.seen.Processes) == 0 {
		c.seen.Processes = nil
	}
}

func (c *card) ecc() {
	mode, ok := result(c.caller, both(c.device.GetEccMode), "nvmlDeviceGetEccMode")
	if !ok {
		return
	}
	count := func(which nvml.MemoryErrorType, since nvml.EccCounterType) *int64 {
		call := func() (uint64, nvml.Return) { return c.device.GetTotalEccErrors(which, since) }
		errors, ok := result(c.caller, call, "nvmlDeviceGetTotalEccErrors")
		if !ok {
			return nil
		}
		return new(int64(errors))
	}
	c.seen.ECC = &facts.ECC{
		Enabled: mode.first == nvml.FEATURE_ENABLED, Pending: new(mode.second == nvml.FEATURE_ENABLED),
		Corrected:            count(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC),
		Uncorrected:          count(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC),
		AggregateCorrected:   count(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC),
		AggregateUncorrected: count(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC),
	}
	if sram, ok := result(c.caller, c.device.GetSramEccErrorStatus, "nvmlDeviceGetSramEccErrorStatus"); ok {
		c.seen.ECC.SRAMExceeded = new(sram.BThresholdExceeded != 0)
	}
}

// retired reads the retired pages. Only GPUs before Ampere report them.
func (c *card) retired() {
	single, ok := result(c.caller, bind(c.device.GetRetiredPages, nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS), "nvmlDeviceGetRetiredPages")
	if !ok {
		return
	}
	double, _ := result(c.caller, bind(c.device.GetRetiredPages, nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR), "nvmlDeviceGetRetiredPages")
	pending, _ := result(c.caller, c.device.GetRetiredPagesPendingStatus, "nvmlDeviceGetRetiredPagesPendingStatus")
	c.seen.Retired = &facts.Retired{SingleBit: len(single), DoubleBit: len(double), Pending: pending == nvml.FEATURE_ENABLED}
}

// remapped reads the remapped rows. Ampere and later GPUs report them.
func (c *card) remapped() {
	rows, ok := result(c.caller, func() (facts.Remapped, nvml.Return) {
		corrected, uncorrected, pending, failed, ret := c.device.GetRemappedRows()
		return facts.Remapped{Corrected: corrected, Uncorrected: uncorrected, Pending: pending, Failed: failed}, ret
	}, "nvmlDeviceGetRemappedRows")
	if ok {
		c.seen.Remapped = &rows
	}
}
