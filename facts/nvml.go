// SPDX-License-Identifier: Apache-2.0

package facts

// NVML is what a driver reports about itself and its GPUs: NVIDIA's through its management library,
// or AMD's through its files in /sys on a node without NVIDIA's. A value that an old driver, a GPU
// or a permission does not give is nil or "".
type NVML struct {
	// Source is where the facts come from: "nvml", [SourceAMD], or "" for none.
	Source string `json:"source"`
	// Asked is false on a node that has neither driver.
	Asked bool `json:"asked"`
	// Failure is why there is no answer, or why it ended early; nil if it was complete. Cards has
	// those that were read before.
	Failure *NVMLFailure `json:"failure"`

	// Driver is the version of the loaded kernel module, "550.54.15". For an amdgpu without a
	// version of its own it is the kernel's: "6.8.0-45-generic".
	Driver  string `json:"driver"`
	Library string `json:"library"` // version of the NVML that answered, "12.550.54.15"
	CUDA    string `json:"cuda"`    // the newest CUDA that the driver supports, "12.4"
	// Cards are the GPUs by index. NVML numbers them by PCI address.
	Cards []Card `json:"cards" fact:"key=index"`
	// Hidden counts GPUs that the driver has but does not show to this session: they have an index
	// and are not in Cards.
	Hidden int `json:"hidden,omitempty" fact:"own"`
	// Unshown are device nodes of GPUs that are not in Cards, each with the reason why this session
	// cannot use it: "operation not permitted" by the cgroup of a job or container, or "" if only
	// the driver hides it. nil if a card did not report its Minor.
	Unshown []DeviceNode `json:"unshown,omitempty" fact:"own"`
	// Topology is how the i-th and j-th of Cards are connected, as nvidia-smi topo -m prints it:
	// NV18, PIX, PXB, PHB, NODE, SYS, "" if not reported, and X for the same card. nil if not read.
	Topology [][]string `json:"topology"`
	// Peers says whether the i-th of Cards can read and write the j-th's memory: "ok" or NVML's
	// reason. The reasons are chipset-not-supported, gpu-not-supported, topology-not-supported,
	// disabled-by-regkey, not-supported and unknown. "" means not reported, X the same card.
	Peers [][]string `json:"peers" fact:"own"`
}

// SourceAMD is the kernel module of AMD's GPUs. Its files in /sys are the source.
const SourceAMD = "amdgpu"

// CallRAS names, in Failure and Refused, the files from which amdgpu's error counters are read.
const CallRAS = "ras/*_err_count"

// NVMLFailure is a call that did not return an answer.
type NVMLFailure struct {
	// Kind is one of the FailureXxx constants.
	Kind string `json:"kind"`
	Code int    `json:"code,omitempty" fact:"own"` // nvmlReturn_t, 0 for other failures
	Call string `json:"call,omitempty" fact:"own"` // "nvmlInit_v2"
	// Text is the message of NVML or of the loader.
	Text string `json:"text" fact:"own"`
}

// These are the kinds of failure.
const (
	FailureNoLibrary    = "no-library"    // libnvidia-ml.so.1 cannot be loaded
	FailureNoDriver     = "no-driver"     // 9: the kernel module is not loaded
	FailureMismatch     = "mismatch"      // 18: library and kernel module have different versions
	FailureNoPermission = "no-permission" // 4
	FailureUnknown      = "unknown"       // 999, for example in a container whose device cgroup lost the GPUs
	FailureLost         = "lost"          // 15: the GPU fell off the bus
	FailureReset        = "reset"         // 16: the GPU needs a reset
	FailureNotFound     = "not-found"     // 6: the driver is loaded and has no GPU
	FailureHung         = "hung"          // no answer in time, killed
	FailureStuck        = "stuck"         // no answer in time, and could not be killed
	FailureCrashed      = "crashed"       // a signal, or the loader's "symbol lookup error"
	FailureOther        = "other"         // any other code
)

// Card is one GPU.
type Card struct {
	Index int `json:"index"`
	// Failure is why the GPU cannot be used: NVML has no handle for it, it is lost, needs a reset,
	// lacks power or interrupts, or did not answer.
	Failure *NVMLFailure `json:"failure,omitempty"`
	// Refused are the other calls that failed for a reason other than "not supported", each once.
	// The values that they would have returned are missing.
	Refused []NVMLFailure `json:"refused,omitempty" fact:"volatile" lasting:"yes"`
	// Recovery is what the driver asks to be done about the GPU: none, reset, reboot, drain (move
	// away what other GPUs have in its memory), drain-and-reset, recover-imex, bus-reset or
	// system-reboot. It is "other" for actions of newer drivers, and "" if not reported, as by
	// older ones.
	Recovery string `json:"recovery,omitempty" fact:"volatile"`

	UUID   string `json:"uuid" fact:"own"`
	Name   string `json:"name"` // "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X OAM"
	Serial string `json:"serial,omitempty" fact:"own"`
	VBIOS  string `json:"vbios,omitempty"`
	// Firmware has the versions of the firmware that amdgpu loaded into an AMD GPU, by part: "mec":
	// "0x00000095". nil if the driver reports none.
	Firmware   map[string]string `json:"firmware"`
	Capability string            `json:"capability,omitempty"` // compute capability, "9.0"
	// Target is the architecture that code for an AMD GPU is compiled for, "gfx942".
	Target   string `json:"target"`
	Address  string `json:"address" fact:"own"` // "0000:4e:00.0"
	Minor    *int   `json:"minor" fact:"own"`   // N of /dev/nvidiaN or /dev/dri/renderDN
	NUMANode *int   `json:"numa_node"`
	CPUs     string `json:"cpus,omitempty"` // nearest processors as a kernel list, "0-31,64-95"

	Memory     int64  `json:"memory" unit:"bytes"`
	MemoryUsed *int64 `json:"memory_used" fact:"volatile" unit:"bytes"`
	// MemoryReserved is what the driver keeps for itself. It is not part of MemoryUsed.
	MemoryReserved *int64 `json:"memory_reserved" fact:"volatile" unit:"bytes"`

	Link  PCILink  `json:"link"`
	Clock GPUClock `json:"clock" unit:"MHz"`
	Power GPUPower `json:"power" unit:"W"`
	// Temperature and SlowdownAt are in °C. The GPU throttles at SlowdownAt.
	Temperature *int `json:"temperature" fact:"volatile" unit:"°C"`
	SlowdownAt  *int `json:"slowdown_at" unit:"°C"`
	// Throttle lists why the clocks are low now, by NVML's names without prefix: gpu-idle,
	// applications-clocks, sw-power-cap, hw-slowdown, sync-boost, sw-thermal, hw-thermal,
	// hw-power-brake, display-clocks.
	Throttle    []string `json:"throttle" fact:"volatile"`
	Utilization *int     `json:"utilization" fact:"volatile" unit:"%"`

	Persistence *bool  `json:"persistence"`
	ComputeMode string `json:"compute_mode,omitempty"` // default, exclusive-process, prohibited
	// MIG is enabled or disabled, "" if the GPU has no MIG. MIGPending is its state after the next
	// reset. MIGDevices are the instances' names ("1g.10gb").
	MIG        string   `json:"mig,omitempty"`
	MIGPending string   `json:"mig_pending,omitempty"`
	MIGDevices []string `json:"mig_devices,omitempty"`

	ECC       *ECC       `json:"ecc"`
	Retired   *Retired   `json:"retired"`
	Remapped  *Remapped  `json:"remapped"`
	Processes []GPUUser  `json:"processes" fact:"volatile"` // nil if not reported
	NVLinks   *NVLinks   `json:"nvlinks"`                   // nil if the GPU has none
	Fabric    *GPUFabric `json:"fabric"`
}

// PCILink is a GPU's PCI Express link. The current generation drops while the GPU idles; the width
// does not.
type PCILink struct {
	Generation    int `json:"generation" fact:"volatile"`
	MaxGeneration int `json:"max_generation"` // that GPU and slot both support
	Width         int `json:"width"`
	MaxWidth      int `json:"max_width"`
	// Replays counts packets sent again since the driver was loaded.
	Replays *int64 `json:"replays" fact:"volatile"`
}

// GPUClock is in MHz, 0 if not reported.
type GPUClock struct {
	SM        int `json:"sm" fact:"volatile"`
	MaxSM     int `json:"max_sm"`
	Memory    int `json:"memory" fact:"volatile"`
	MaxMemory int `json:"max_memory"`
	// AppSM is the SM clock set for applications, 0 if not set.
	AppSM int `json:"app_sm"`
}

// GPUPower is in watts, 0 if not reported.
type GPUPower struct {
	Draw    float64 `json:"draw" fact:"volatile"`
	Limit   float64 `json:"limit"`   // in force
	Default float64 `json:"default"` // the factory setting
	Max     float64 `json:"max"`
}

// ECC is the error correction of the GPU's memory.
type ECC struct {
	Enabled bool  `json:"enabled"`
	Pending *bool `json:"pending,omitempty"` // after the next reset
	// Errors since the driver was loaded (Corrected, Uncorrected) and over the GPU's lifetime
	// (Aggregate…). nil if not reported.
	Corrected            *int64 `json:"corrected" fact:"volatile"`
	Uncorrected          *int64 `json:"uncorrected" fact:"volatile"`
	AggregateCorrected   *int64 `json:"aggregate_corrected" fact:"own" lasting:"no"`
	AggregateUncorrected *int64 `json:"aggregate_uncorrected" fact:"own" lasting:"no"`
	// SRAMExceeded reports whether the GPU's SRAM had so many errors that NVIDIA asks for the GPU
	// to be diagnosed; nil if not reported.
	SRAMExceeded *bool `json:"sram_exceeded"`
}

// Retired are memory pages taken out of use, on GPUs before Ampere.
type Retired struct {
	SingleBit int  `json:"single_bit" fact:"own" lasting:"no"`
	DoubleBit int  `json:"double_bit" fact:"own" lasting:"no"`
	Pending   bool `json:"pending"`
}

// Remapped are memory rows replaced by spare ones, on Ampere and later.
type Remapped struct {
	Corrected   int  `json:"corrected" fact:"own" lasting:"no"`
	Uncorrected int  `json:"uncorrected" fact:"own" lasting:"no"`
	Pending     bool `json:"pending"` // needs a reset
	Failed      bool `json:"failed"`  // no spare rows are left
}

// GPUUser is a process that uses a GPU.
type GPUUser struct {
	PID int `json:"pid"`
	// Name is the program's, "" if the process is not in our process table.
	Name   string `json:"name"`
	User   string `json:"user,omitempty"`
	Kind   string `json:"kind"` // compute, graphics, mps
	Memory *int64 `json:"memory" unit:"bytes"`
}

// NVLinks are the links of a GPU. Properties that all links share are stored once, because a fleet
// of a thousand machines has some hundred thousand links. For AMD's GPUs, whose links are XGMI, a
// link is the way to another GPU of the machine and has that GPU's index. A missing one may be how
// the machine is built.
type NVLinks struct {
	Count int   `json:"count"`          // links that the GPU has
	Down  []int `json:"down,omitempty"` // links that are not active
	// Speed is the speed of the fastest active link in one direction in bit/s, 0 if not reported.
	// Slow are the active links below it.
	Speed int64 `json:"speed" unit:"bit/s"`
	Slow  []int `json:"slow,omitempty"`
	// RemoteKind is gpu, switch, other, "mixed", or "" if not reported. Remotes are the PCI
	// addresses of the far ends by link, "" if not reported. Remotes is nil if all links lead to
	// switches.
	RemoteKind string   `json:"remote_kind,omitempty"`
	Remotes    []string `json:"remotes,omitempty" fact:"own"`
	// Counted reports whether the driver gives error counters. Errors are the links with errors
	// since it was loaded.
	Counted bool           `json:"counted"`
	Errors  []NVLinkErrors `json:"errors,omitempty" fact:"volatile"`
}

// NVLinkErrors are the error counters of one link, 0 if not reported.
type NVLinkErrors struct {
	Link       int   `json:"link"`
	Replays    int64 `json:"replays,omitempty"`
	Recoveries int64 `json:"recoveries,omitempty"`
	CRC        int64 `json:"crc,omitempty"`

	// Fifth-generation links count no replays and no CRC errors. They count recoveries after which
	// the link stayed down, errors in packets and in symbols, and the share of wrong bits in
	// packets.
	FailedRecoveries int64   `json:"failed_recoveries,omitempty"`
	Effective        int64   `json:"effective,omitempty"`
	Symbol           int64   `json:"symbol,omitempty"`
	EffectiveBER     float64 `json:"effective_ber,omitempty"`
}

// GPUFabric is a GPU's place in an NVLink fabric with switches.
type GPUFabric struct {
	State   string `json:"state"`            // not-supported, not-started, in-progress, completed
	Status  string `json:"status,omitempty"` // "" for success, otherwise NVML's message
	Cluster string `json:"cluster,omitempty"`
	Clique  int    `json:"clique"`
	// Health is the summary: healthy, unhealthy, limited-capacity; "" if not reported, as by older
	// drivers.
	Health string `json:"health"`
	// Degraded are the parts named in the health mask: bandwidth, route-recovery, route,
	// access-timeout, configuration.
	Degraded []string `json:"degraded,omitempty"`
}
