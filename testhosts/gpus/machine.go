// SPDX-License-Identifier: Apache-2.0

// Package gpus stands in for machines with GPUs of NVIDIA's. A [Machine] is a value that
// says how many cards there are, what their driver reports and what is wrong with them; it
// answers as NVML would, in a library that programs load in its place ([BuildNVML]), and as
// /proc, /sys and /dev of a machine that has them. Its CUDA computes one kernel, and its NCCL
// sums over TCP ([BuildCUDA]).
//
// It refuses to know where that is shown: testhosts lays it over a node.
package gpus

import (
	"slices"
)

// Machine is what a machine's NVIDIA GPUs and their driver are like. It is the one
// source of what each stand-in says: the stub library ([BuildNVML]) and the files of a
// namespace host (testhosts.Node.SetDriver).
// The constructors ([H100s] and its neighbours) make healthy machines; a test
// changes what it wants sick.
type Machine struct {
	Driver string // version of the driver's user half: "550.54.15"
	CUDA   string // the newest CUDA it runs: "12.4"
	// Module is the version of the loaded kernel module, "" when none is loaded.
	// Another one than Driver is the mismatch that stops every call.
	Module     string
	OpenModule bool
	// Bound is the kernel driver that has the cards while nvidia's module is not
	// loaded: nouveau, vfio-pci, "" for none.
	Bound string
	NoUVM bool // the module nvidia_uvm is not loaded, and its device node not there
	// NoLibrary leaves out the driver's user half, NoNVML only the library of NVML.
	NoLibrary, NoNVML bool
	// NCCL is whether there is a libnccl.so.2 where the loader looks by default.
	NCCL bool

	Cards      []Card // in NVML's order
	NVSwitches int    // on the PCI bus
	// IOMMU is the type of the cards' IOMMU groups: DMA-FQ, identity, "" where they
	// are in none. ACS has the bridges above them send what cards say to each other
	// up to the root complex.
	IOMMU string
	ACS   bool
	// FabricManager is the version of the nv-fabricmanager that is installed, "" for
	// none; FabricManagerRuns is whether it runs.
	FabricManager     string
	FabricManagerRuns bool

	// Init is what nvmlInit_v2 returns where Module is no reason for it to fail:
	// 999 as in a container that lost its devices, 4, 6, 15. 0 is success.
	Init int
	// Hang and Crash name calls that never return and that end in a segmentation fault.
	Hang, Crash Call
	// Without are functions that the library does not have, as an old one.
	Without []string
}

// Call is a call of an NVML function, none when Function is "".
type Call struct {
	Function string // "nvmlDeviceGetUUID"
	// GPU is the index of the card that it is made for, -1 for whichever.
	GPU int
}

// Card is one card. What is nil, "" or absent it does not support, but where a
// comment says otherwise.
type Card struct {
	Name       string // "NVIDIA H100 80GB HBM3"
	Device     uint16 // PCI device id, 0x2330
	Capability string // compute capability: "9.0"
	UUID       string
	Serial     string
	VBIOS      string
	// Path is the way from the root complex, the GPU last: "pci0000:1a",
	// "0000:1a:01.0", "0000:1b:00.0". Who shares how much of it is the topology.
	Path []string
	NUMA int
	CPUs string // nearest processors as a kernel list: "0-55,112-167"

	Memory, MemoryUsed, MemoryReserved int64 // bytes

	Link      Link
	Clock     Clock
	Power     Power
	Celsius   int
	SlowAt    int      // °C
	Throttle  []string // gpu-idle, sw-power-cap, hw-slowdown, sw-thermal, hw-thermal, hw-power-brake, …
	Busy      int      // percent
	Processes []Process

	Persistence bool
	ComputeMode string // default, exclusive-process, prohibited
	// MIG and MIGPending are enabled, disabled, or "" where the card knows none.
	MIG, MIGPending string
	MIGDevices      []string // names: "1g.10gb"

	ECC      *ECC
	Retired  *Retired  // of cards before Ampere
	Remapped *Remapped // of Ampere and later

	NVLinks []NVLink
	Fabric  *Fabric
	// Apart is why other cards' memory cannot be reached, by their index, as NVML
	// counts reasons: 1 chipset, 2 GPU, 3 topology, 4 registry key, 5 not supported.
	Apart map[int]int

	// Unbound has the card on the PCI bus and in no driver's hands: nothing but
	// the bus shows it, and the cards behind it move up.
	Unbound bool
	// Lost has the card fall off the bus: its handle is not given out.
	Lost bool
	// Recovery is what the driver wants done about the card: none, reset, reboot, drain,
	// drain-and-reset, recover-imex, bus-reset, system-reboot; "" where it is too old to say.
	Recovery string
	// Fails are codes (nvmlReturn_t, CUresult, ncclResult_t) that functions return for this card.
	Fails map[string]int
	// Trouble is what functions of CUDA and NCCL do for this card: hang, crash, slow, and
	// where there is an answer wrong or nan. Besides these, cuDeviceGetAttribute has mps (an MPS
	// server shares the card), cuStreamQuery busy (for ever), and ncclCommInitRankConfig
	// leave (a file in /dev/shm).
	Trouble map[string]string
}

// Link is a card's PCI link: generations and widths in lanes, now and at most.
type Link struct{ Generation, MaxGeneration, Width, MaxWidth, Replays int }

// Clock is in MHz. AppSM is 0 where nobody set one.
type Clock struct{ SM, MaxSM, Memory, MaxMemory, AppSM int }

// Power is in watts.
type Power struct{ Draw, Limit, Default, Min, Max float64 }

// ECC is error correction: errors since the driver came and since the card was made.
type ECC struct {
	Enabled, Pending                         bool
	Corrected, Uncorrected                   int64
	AggregateCorrected, AggregateUncorrected int64
}

// Retired counts pages taken out of use.
type Retired struct {
	SingleBit, DoubleBit int
	Pending              bool
}

// Remapped counts rows replaced by spare ones.
type Remapped struct {
	Corrected, Uncorrected int
	Pending, Failed        bool
}

// Process is a process that uses a card.
type Process struct {
	PID    int
	Name   string
	Kind   string // compute, graphics, mps
	Memory int64  // bytes
}

// NVLink is one link of a card.
type NVLink struct {
	Down    bool
	Speed   int    // of one direction in MB/s: 26562
	Kind    string // of the far end: gpu, switch
	Remote  string // PCI address of the far end
	Replays int
	Recover int
	CRC     int
}

// Fabric is a card's place in a fabric of NVSwitches, as NVML numbers it.
type Fabric struct {
	State   int    // 0 not supported, 1 not started, 2 in progress, 3 completed
	Status  int    // nvmlReturn_t, of a completed one
	Cluster string // UUID
	Clique  int
	Health  int // mask
}

// Address is the card's own on the PCI bus, as sysfs spells it: "0000:1b:00.0".
func (g Card) Address() string { return g.Path[len(g.Path)-1] }

// handleFunction gives a card's handle out: of one that has none, nothing else is reported.
const handleFunction = "nvmlDeviceGetHandleByIndex_v2"

// initCode is what nvmlInit_v2 returns.
func (g Machine) initCode() int {
	switch {
	case g.Module == "":
		return nvmlDriverNotLoaded
	case g.Module != g.Driver:
		return nvmlMismatch
	}
	return g.Init
}

// The values of nvmlReturn_t that have a meaning here (nvml.h of CUDA 12 and 13).
const (
	nvmlNoPermission    = 4
	nvmlDriverNotLoaded = 9
	nvmlLost            = 15
	nvmlMismatch        = 18
	nvmlUnknown         = 999
)

// topology is how far apart two cards are on the PCI bus, as
// nvmlGpuTopologyLevel_t numbers it.
func topology(a, b Card) int {
	common := 0
	for common < min(len(a.Path), len(b.Path)) && a.Path[common] == b.Path[common] {
		common++
	}
	switch {
	case common == 0 && a.NUMA != b.NUMA:
		return 50 // only the whole system joins them
	case common == 0:
		return 40 // a NUMA node
	case common == 1:
		return 30 // a host bridge
	case len(a.Path)-common <= 2 && len(b.Path)-common <= 2:
		return 10 // one PCIe switch: beyond its upstream port come a downstream one and the card
	}
	return 20 // several of them
}

// driven is the machine as its driver knows it, without the cards that it has not got.
func (g Machine) driven() Machine {
	g.Cards = slices.DeleteFunc(slices.Clone(g.Cards), func(card Card) bool { return card.Unbound })
	return g
}
