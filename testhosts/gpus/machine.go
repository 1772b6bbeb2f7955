// SPDX-License-Identifier: Apache-2.0

// Package gpus simulates machines with NVIDIA GPUs. A [Machine] is a value with the number of
// cards, what their driver reports, and what is wrong with them. [BuildNVML] builds a library that
// programs load instead of NVML and that answers from the Machine. Methods return the files that
// /proc, /sys and /dev have on such a machine. [BuildCUDA] builds a CUDA library that computes one
// kernel and an NCCL library that sums over TCP.
//
// The package does not know where its files are used. Package testhosts puts the files into a node.
package gpus

import (
	"slices"
)

// Machine describes the NVIDIA GPUs of a machine and their driver. The stub library ([BuildNVML])
// and the files of a namespace host (testhosts.Node.SetDriver) take all their answers from it.
// Constructors such as [H100s] return healthy machines, and tests change these machines.
type Machine struct {
	Driver string // version of the user-space driver: "550.54.15"
	CUDA   string // the newest CUDA version that the driver supports: "12.4"
	// Module is the version of the loaded kernel module, "" if none is loaded. If it differs from
	// Driver, every call fails.
	Module     string
	OpenModule bool
	// Bound is the kernel driver to which the cards are bound while NVIDIA's module is not loaded:
	// nouveau, vfio-pci, or "" for none.
	Bound string
	NoUVM bool // the module nvidia_uvm is not loaded, and its device node is missing
	// NoLibrary omits the whole user-space driver. NoNVML omits only the NVML library.
	NoLibrary, NoNVML bool
	// NCCL reports whether libnccl.so.2 is in the loader's default directory.
	NCCL bool

	Cards      []Card // the cards in NVML's order
	NVSwitches int    // number of NVSwitches on the PCI bus
	// IOMMU is the type of the cards' IOMMU groups: DMA-FQ, identity, or "" for no group. ACS makes
	// the bridges above the cards send the traffic between cards through the root complex.
	IOMMU string
	ACS   bool
	// FabricManager is the version of the installed nv-fabricmanager, "" for none.
	// FabricManagerRuns reports whether nv-fabricmanager runs.
	FabricManager     string
	FabricManagerRuns bool

	// Init is the result of nvmlInit_v2 if Module does not make it fail: 0 is success, and 999 is
	// the result in a container that has lost its devices. 4, 6 and 15 are also supported.
	Init int
	// Hang is a call that never returns. Crash is a call that ends in a segmentation fault.
	Hang, Crash Call
	// Without lists the functions that the library lacks, as an old library does.
	Without []string
}

// Call is a call of an NVML function. If Function is "", there is no such call.
type Call struct {
	Function string // for example "nvmlDeviceGetUUID"
	// GPU is the index of the card that the call is about, or -1 for any card.
	GPU int
}

// Card is one card. nil, "" or a missing value means that the card does not support the item,
// unless a comment says otherwise.
type Card struct {
	Name       string // for example "NVIDIA H100 80GB HBM3"
	Device     uint16 // PCI device ID, for example 0x2330
	Capability string // compute capability: "9.0"
	UUID       string
	Serial     string
	VBIOS      string
	// Path is the PCI path from the root complex to the GPU: "pci0000:1a", "0000:1a:01.0",
	// "0000:1b:00.0". The longer the common part of their paths, the closer two cards are in the
	// topology.
	Path []string
	NUMA int
	CPUs string // nearest processors as a kernel list: "0-55,112-167"

	Memory, MemoryUsed, MemoryReserved int64 // in bytes

	Link      Link
	Clock     Clock
	Power     Power
	Celsius   int
	SlowAt    int      // in °C
	Throttle  []string // gpu-idle, sw-power-cap, hw-slowdown, sw-thermal, hw-thermal, hw-power-brake, …
	Busy      int      // in percent
	Processes []Process

	Persistence bool
	ComputeMode string // default, exclusive-process, prohibited
	// MIG and MIGPending are the current and the pending MIG mode: enabled, disabled, or "" if the
	// card does not support MIG.
	MIG, MIGPending string
	MIGDevices      []string // names of the MIG instances, for example "1g.10gb"

	ECC      *ECC
	Retired  *Retired  // retired pages, for cards before Ampere
	Remapped *Remapped // remapped rows, for Ampere and later cards

	NVLinks []NVLink
	Fabric  *Fabric
	// Apart maps the index of another card to the reason why this card cannot access that card's
	// memory. The reasons have NVML's numbers: 1 chipset, 2 GPU, 3 topology, 4 registry key, 5 not
	// supported.
	Apart map[int]int

	// Unbound means that the card is on the PCI bus but bound to no driver. Only the PCI bus shows
	// such a card, and the indices of later cards decrease by one.
	Unbound bool
	// Lost means that the card has fallen off the bus, so NVML returns no handle for the card.
	Lost bool
	// Recovery is the action that the driver asks for: none, reset, reboot, drain, drain-and-reset,
	// recover-imex, bus-reset, system-reboot; "" if the driver is too old.
	Recovery string
	// Fails maps functions to the error codes (nvmlReturn_t, CUresult, ncclResult_t) that they
	// return for this card.
	Fails map[string]int
	// Trouble maps a function of CUDA or NCCL to its misbehaviour for this card: "hang", "crash" or
	// "slow". Functions with a result may also have "wrong" or "nan". Three functions accept one
	// more value. With "mps", cuDeviceGetAttribute reports that an MPS server shares the card. With
	// "busy", cuStreamQuery reports a stream that never ends. With "leave", ncclCommInitRankConfig
	// leaves a file in /dev/shm.
	Trouble map[string]string
}

// Link is a card's PCI link: the current and the maximum generation, the current and the maximum
// number of lanes, and the number of replays.
type Link struct{ Generation, MaxGeneration, Width, MaxWidth, Replays int }

// Clock holds clock rates in MHz. AppSM is 0 if no application clock is set.
type Clock struct{ SM, MaxSM, Memory, MaxMemory, AppSM int }

// Power holds values in watts.
type Power struct{ Draw, Limit, Default, Min, Max float64 }

// ECC counts memory errors since the driver was loaded, and since the card was made.
type ECC struct {
	Enabled, Pending                         bool
	Corrected, Uncorrected                   int64
	AggregateCorrected, AggregateUncorrected int64
}

// Retired counts the memory pages that are no longer used.
type Retired struct {
	SingleBit, DoubleBit int
	Pending              bool
}

// Remapped counts the memory rows that were replaced by spare rows.
type Remapped struct {
	Corrected, Uncorrected int
	Pending, Failed        bool
}

// Process is a process that uses a card.
type Process struct {
	PID    int
	Name   string
	Kind   string // compute, graphics, mps
	Memory int64  // in bytes
}

// NVLink is one link of a card.
type NVLink struct {
	Down    bool
	Speed   int    // in one direction, in MB/s, for example 26562
	Kind    string // the other end: gpu or switch
	Remote  string // PCI address of the other end
	Replays int
	Recover int
	CRC     int
}

// Fabric is the state of a card in a fabric of NVSwitches, with NVML's numbers.
type Fabric struct {
	State   int    // 0 not supported, 1 not started, 2 in progress, 3 completed
	Status  int    // nvmlReturn_t, if State is completed
	Cluster string // UUID of the cluster
	Clique  int
	Health  int // health mask
}

// Address returns the PCI address of the card as in sysfs: "0000:1b:00.0".
func (g Card) Address() string { return g.Path[len(g.Path)-1] }

// handleFunction is the name of the function that returns a card's handle. Without a handle, NVML
// reports nothing else about the card.
const handleFunction = "nvmlDeviceGetHandleByIndex_v2"

// initCode returns the result of nvmlInit_v2.
func (g Machine) initCode() int {
	switch {
	case g.Module == "":
		return nvmlDriverNotLoaded
	case g.Module != g.Driver:
		return nvmlMismatch
	}
	return g.Init
}

// These are the values of nvmlReturn_t that this package uses (nvml.h of CUDA 12 and 13).
const (
	nvmlNoPermission    = 4
	nvmlDriverNotLoaded = 9
	nvmlLost            = 15
	nvmlMismatch        = 18
	nvmlUnknown         = 999
)

// topology returns the distance of two cards on the PCI bus as an nvmlGpuTopologyLevel_t.
func topology(a, b Card) int {
	common := 0
	for common < min(len(a.Path), len(b.Path)) && a.Path[common] == b.Path[common] {
		common++
	}
	switch {
	case common == 0 && a.NUMA != b.NUMA:
		return 50 // only the system as a whole connects them
	case common == 0:
		return 40 // same NUMA node
	case common == 1:
		return 30 // same host bridge
	case len(a.Path)-common <= 2 && len(b.Path)-common <= 2:
		return 10 // one PCIe switch: its upstream port, then a downstream port, then the card
	}
	return 20 // several PCIe switches
}

// driven returns the machine as its driver sees it, without unbound cards.
func (g Machine) driven() Machine {
	g.Cards = slices.DeleteFunc(slices.Clone(g.Cards), func(card Card) bool { return card.Unbound })
	return g
}
