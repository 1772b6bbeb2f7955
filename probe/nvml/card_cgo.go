// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package nvml

import (
	"cmp"
	"fmt"
	"math/bits"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"preflight/facts"
)

// card is a GPU about which the reader asks the driver.
type card struct {
	*caller
	device nvml.Device // nil if the driver gave no handle
	seen   facts.Card
	links  []link
}

// card asks for all properties of one GPU. It writes the result after each part, so that a call
// that hangs loses only the parts after it. It returns nil for a GPU that is counted but not shown
// to this session (nvml.h, nvmlDeviceGetCount_v2).
func (r *reader) card(index int) *card {
	c := &card{caller: &caller{reader: r, card: &index}, seen: facts.Card{Index: index}}
	c.announce("nvmlDeviceGetHandleByIndex_v2")
	device, ret := r.library.DeviceGetHandleByIndex(index)
	switch ret {
	case nvml.SUCCESS:
	case nvml.ERROR_NO_PERMISSION, nvml.ERROR_OPERATING_SYSTEM: // the second error occurs if a cgroup denies the GPU
		return nil
	default:
		c.fails("nvmlDeviceGetHandleByIndex_v2", ret)
		c.write()
		return c
	}
	c.device = device
	for _, part := range []func(){
		c.identity, c.recovery, c.place, c.memory, c.pcie, c.clocks, c.power, c.temperature, c.modes, c.instances,
		c.ecc, c.retired, c.remapped, c.processes, c.nvlinks, c.fabric,
	} {
		part()
		c.write()
		if c.lost() {
			break
		}
	}
	return c
}

func (c *card) write() {
	c.seen.Failure, c.seen.Refused = c.failure, c.refused
	c.send(Line{Seen: &c.seen})
}

// pair holds the result of a call with two results.
type pair[T any] struct{ first, second T }

func both[T any](call func() (T, T, nvml.Return)) func() (pair[T], nvml.Return) {
	return func() (pair[T], nvml.Return) {
		first, second, ret := call()
		return pair[T]{first, second}, ret
	}
}

// bind returns a function that makes the call with the given argument.
func bind[A, T any](call func(A) (T, nvml.Return), argument A) func() (T, nvml.Return) {
	return func() (T, nvml.Return) { return call(argument) }
}

func (c *card) identity() {
	// The address comes first, because it identifies a GPU that fails at all other calls.
	if pci, ok := result(c.caller, c.device.GetPciInfo, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"); ok {
		c.seen.Address = address(pci)
	}
	c.seen.UUID, _ = result(c.caller, c.device.GetUUID, "nvmlDeviceGetUUID")
	c.seen.Name, _ = result(c.caller, c.device.GetName, "nvmlDeviceGetName")
	c.seen.Serial, _ = result(c.caller, c.device.GetSerial, "nvmlDeviceGetSerial")
	c.seen.VBIOS, _ = result(c.caller, c.device.GetVbiosVersion, "nvmlDeviceGetVbiosVersion")
	if capability, ok := result(c.caller, both(c.device.GetCudaComputeCapability), "nvmlDeviceGetCudaComputeCapability"); ok {
		c.seen.Capability = fmt.Sprintf("%d.%d", capability.first, capability.second)
	}
	if minor, ok := result(c.caller, c.device.GetMinorNumber, "nvmlDeviceGetMinorNumber"); ok {
		c.seen.Minor = &minor
	}
}

// address returns a PCI address as sysfs spells it. The function number of a GPU is 0.
func address(pci nvml.PciInfo) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
}

const (
	// mostCPUs and mostNodes are the sizes of the masks that are requested. Requesting more than a
	// machine has does no harm.
	mostCPUs  = 4096
	mostNodes = 256
	// affinityNode is the value of NVML_AFFINITY_SCOPE_NODE (nvml.h).
	affinityNode = 0
)

// place sets the CPUs and the NUMA node near the GPU. It does not use nvmlDeviceGetNumaNodeId. If
// the GPU's memory is itself a NUMA node, as on Grace Hopper, that call returns the GPU's own node.
func (c *card) place() {
	if mask, ok := result(c.caller, bind(c.device.GetCpuAffinity, mostCPUs), "nvmlDeviceGetCpuAffinity"); ok {
		c.seen.CPUs = facts.Ranges(members(mask))
	}
	nodes := func() ([]uint, nvml.Return) { return c.device.GetMemoryAffinity(mostNodes, affinityNode) }
	if mask, ok := result(c.caller, nodes, "nvmlDeviceGetMemoryAffinity"); ok {
		if near := members(mask); len(near) == 1 { // several near nodes give no single NUMA node
			c.seen.NUMANode = &near[0]
		}
	}
}

// members returns the numbers of the bits that are set in a mask.
func members(mask []uint) []int {
	var numbers []int
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			numbers = append(numbers, i*bits.UintSize+bits.TrailingZeros(word))
		}
	}
	return numbers
}

// memory prefers the newer call, which reports the driver's share separately. The older call counts
// that share as used (nvml.h, nvmlMemory_t and nvmlMemory_v2_t).
func (c *card) memory() {
	if memory, ok := result(c.caller, c.device.GetMemoryInfo_v2, "nvmlDeviceGetMemoryInfo_v2"); ok {
		c.seen.Memory, c.seen.MemoryUsed, c.seen.MemoryReserved = int64(memory.Total), new(int64(memory.Used)), new(int64(memory.Reserved))
	} else if memory, ok := result(c.caller, c.device.GetMemoryInfo, "nvmlDeviceGetMemoryInfo"); ok {
		c.seen.Memory, c.seen.MemoryUsed = int64(memory.Total), new(int64(memory.Used))
	}
}

func (c *card) pcie() {
	link := &c.seen.Link
	link.Generation, _ = result(c.caller, c.device.GetCurrPcieLinkGeneration, "nvmlDeviceGetCurrPcieLinkGeneration")
	link.MaxGeneration, _ = result(c.caller, c.device.GetMaxPcieLinkGeneration, "nvmlDeviceGetMaxPcieLinkGeneration")
	link.Width, _ = result(c.caller, c.device.GetCurrPcieLinkWidth, "nvmlDeviceGetCurrPcieLinkWidth")
	link.MaxWidth, _ = result(c.caller, c.device.GetMaxPcieLinkWidth, "nvmlDeviceGetMaxPcieLinkWidth")
	if replays, ok := result(c.caller, c.device.GetPcieReplayCounter, "nvmlDeviceGetPcieReplayCounter"); ok {
		link.Replays = new(int64(replays))
	}
}

func (c *card) clocks() {
	megahertz := func(name string, call func(nvml.ClockType) (uint32, nvml.Return), clock nvml.ClockType) int {
		value, _ := result(c.caller, bind(call, clock), name)
		return int(value)
	}
	clock := &c.seen.Clock
	clock.SM = megahertz("nvmlDeviceGetClockInfo", c.device.GetClockInfo, nvml.CLOCK_SM)
	clock.Memory = megahertz("nvmlDeviceGetClockInfo", c.device.GetClockInfo, nvml.CLOCK_MEM)
	clock.MaxSM = megahertz("nvmlDeviceGetMaxClockInfo", c.device.GetMaxClockInfo, nvml.CLOCK_SM)
	clock.MaxMemory = megahertz("nvmlDeviceGetMaxClockInfo", c.device.GetMaxClockInfo, nvml.CLOCK_MEM)

	// Every GPU with application clocks has values for them. They count as set if they differ from
	// the default values.
	set := megahertz("nvmlDeviceGetApplicationsClock", c.device.GetApplicationsClock, nvml.CLOCK_SM)
	usual := megahertz("nvmlDeviceGetDefaultApplicationsClock", c.device.GetDefaultApplicationsClock, nvml.CLOCK_SM)
	if set != cmp.Or(usual, clock.MaxSM) {
		clock.AppSM = set
	}
	c.throttle()
}

// throttleNames lists the bits of nvmlClocksEventReasons in order (nvml.h), with the names that
// facts use.
var throttleNames = []string{
	"gpu-idle", "applications-clocks", "sw-power-cap", "hw-slowdown", "sync-boost",
	"sw-thermal", "hw-thermal", "hw-power-brake", "display-clocks",
}

func (c *card) throttle() {
	reasons, ok := result(c.caller, c.device.GetCurrentClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons")
	if !ok { // older libraries have the call under this name
		reasons, ok = result(c.caller, c.device.GetCurrentClocksThrottleReasons, "nvmlDeviceGetCurrentClocksThrottleReasons")
	}
	if !ok {
		return
	}
	c.seen.Throttle = []string{}
	for bit, name := range throttleNames {
		if reasons>>bit&1 == 1 {
			c.seen.Throttle = append(c.seen.Throttle, name)
		}
	}
}

// power reads the power values and converts milliwatts to watts.
func (c *card) power() {
	watts := func(name string, call func() (uint32, nvml.Return)) float64 {
		milliwatts, _ := result(c.caller, call, name)
		return float64(milliwatts) / 1000
	}
	power := &c.seen.Power
	power.Draw = watts("nvmlDeviceGetPowerUsage", c.device.GetPowerUsage)
	power.Limit = watts("nvmlDeviceGetEnforcedPowerLimit", c.device.GetEnforcedPowerLimit)
	power.Default = watts("nvmlDeviceGetPowerManagementDefaultLimit", c.device.GetPowerManagementDefaultLimit)
	if limits, ok := result(c.caller, both(c.device.GetPowerManagementLimitConstraints), "nvmlDeviceGetPowerManagementLimitConstraints"); ok {
		power.Max = float64(limits.second) / 1000
	}
}

func (c *card) temperature() {
	degrees := func(celsius uint32, ok bool) *int {
		if !ok {
			return nil
		}
		return new(int(celsius))
	}
	c.seen.Temperature = degrees(result(c.caller, bind(c.device.GetTemperature, nvml.TEMPERATURE_GPU), "nvmlDeviceGetTemperature"))
	c.seen.SlowdownAt = degrees(result(c.caller, bind(c.device.GetTemperatureThreshold, nvml.TEMPERATURE_THRESHOLD_SLOWDOWN), "nvmlDeviceGetTemperatureThreshold"))
	if busy, ok := result(c.caller, c.device.GetUtilizationRates, "nvmlDeviceGetUtilizationRates"); ok {
		c.seen.Utilization = new(int(busy.Gpu))
	}
}
