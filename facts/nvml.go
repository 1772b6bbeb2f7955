// SPDX-License-Identifier: Apache-2.0

package facts

// NVML holds what a driver reports about itself and its GPUs. NVIDIA's driver reports through its
// management library. On a node without NVIDIA GPUs, AMD's driver reports through its files in
// /sys. A value is nil or "" if an old driver or a GPU does not give it, or a permission is
// missing.
type NVML struct {
	// Source is the interface that the facts come from: "nvml", [SourceAMD], or "" for none.
	Source string `json:"source"`
	// Asked reports whether the node has one of the two drivers, so that it was asked.
	Asked bool `json:"asked"`
	// Failure says why the driver gave no answer, or why the answer ended early. It is nil if the
	// answer was complete. Cards holds the GPUs that were read before the failure.
	Failure *NVMLFailure `json:"failure"`

	// Driver is the version of the loaded kernel module, "550.54.15". An amdgpu module may have no
	// version of its own. In that case Driver is the kernel's version: "6.8.0-45-generic".
	Driver  string `json:"driver"`
	Library string `json:"library"` // version of the NVML library that answered, "12.550.54.15"
	CUDA    string `json:"cuda"`    // the newest CUDA version that the driver supports, "12.4"
	// Cards lists the GPUs by index. NVML numbers GPUs by PCI address.
	Cards []Card `json:"cards" fact:"key=index"`
	// Hidden counts the GPUs that the driver has but does not show to this session. These GPUs have
	// an index and are not in Cards.
	Hidden int `json:"hidden,omitempty" fact:"own"`
	// Unshown lists the device nodes of GPUs that are not in Cards, each with the reason why this
	// session cannot use it. The reason is "operation not permitted" if the cgroup of a job or
	// container denies it, or "" if only the driver hides the GPU. Unshown is nil if a card did not
	// report its Minor.
	Unshown []DeviceNode `json:"unshown,omitempty" fact:"own"`
	// Topology says how the i-th and j-th of Cards are connected, as nvidia-smi topo -m prints it.
	// The values are NV18, PIX, PXB, PHB, NODE, SYS, "" if not reported, and X for the same card.
	// Topology is nil if it was not read.
	Topology [][]string `json:"topology"`
	// Peers says whether the i-th of Cards can read and write the j-th card's memory. The value is
	// "ok" or NVML's reason: chipset-not-supported, gpu-not-supported, topology-not-supported,
	// disabled-by-regkey, not-supported or unknown. "" means not reported, and X means the same
	// card.
	Peers [][]string `json:"peers" fact:"own"`
}

// SourceAMD is the value of Source for AMD's GPUs. It is the name of their kernel module, whose
// files in /sys preflight reads.
const SourceAMD = "amdgpu"

// CallRAS is the name, in Failure and Refused, of the files from which amdgpu's error counters are
// read.
const CallRAS = "ras/*_err_count"

// NVMLFailure describes a call that did not return an answer.
type NVMLFailure struct {
	// Kind is one of the FailureXxx constants.
	Kind string `json:"kind"`
	Code int    `json:"code,omitempty" fact:"own"` // nvmlReturn_t; 0 for failures without a return code
	Call string `json:"call,omitempty" fact:"own"` // function that failed, "nvmlInit_v2"
	// Text is the message of NVML or of the loader.
	Text string `json:"text" fact:"own"`
}

// These are the values of NVMLFailure.Kind.
const (
	FailureNoLibrary    = "no-library"    // libnvidia-ml.so.1 cannot be loaded
	FailureNoDriver     = "no-driver"     // code 9: the kernel module is not loaded
	FailureMismatch     = "mismatch"      // code 18: library and kernel module have different versions
	FailureNoPermission = "no-permission" // code 4
	FailureUnknown      = "unknown"       // code 999, for example in a container whose device cgroup lost the GPUs
	FailureLost         = "lost"          // code 15: the GPU fell off the bus
	FailureReset        = "reset"         // code 16: the GPU needs a reset
	FailureNotFound     = "not-found"     // code 6: the driver is loaded and has no GPU
	FailureHung         = "hung"          // the call gave no answer in time, and its process was killed
	FailureStuck        = "stuck"         // the call gave no answer in time, and its process could not be killed
	FailureCrashed      = "crashed"       // the process ended with a signal, or with the loader's "symbol lookup error"
	FailureOther        = "other"         // any other code
)

// Card is one GPU.
type Card struct {
	Index int `json:"index"`
	// Failure says why the GPU cannot be used. NVML has no handle for it, the GPU is lost, needs a
	// reset, lacks power or interrupts, or did not answer.
	Failure *NVMLFailure `json:"failure,omitempty"`
	// Refused lists the other calls that failed for a reason other than "not supported", each call
	// once. The values that these calls would have returned are missing.
	Refused []NVMLFailure `json:"refused,omitempty" fact:"volatile" lasting:"yes"`
	// Recovery is what the driver asks the user to do about the GPU: none, reset, reboot, drain
	// (move away what other GPUs have in its memory), drain-and-reset, recover-imex, bus-reset or
	// system-reboot. It is "other" for the actions of newer drivers. It is "" if the driver does
	// not report it, as older drivers do not.
	Recovery string `json:"recovery,omitempty" fact:"volatile"`

	UUID   string `json:"uuid" fact:"own"`
	Name   string `json:"name"` // "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X OAM"
	Serial string `json:"serial,omitempty" fact:"own"`
	VBIOS  string `json:"vbios,omitempty"`
	// Firmware maps each part of an AMD GPU to the version of the firmware that amdgpu loaded into
	// it: "mec": "0x00000095". It is nil if the driver reports none.
	Firmware   map[string]string `json:"firmware"`
	Capability string            `json:"capability,omitempty"` // compute capability, "9.0"
	// Target is the architecture for which code for an AMD GPU is compiled, "gfx942".
	Target   string `json:"target"`
	Address  string `json:"address" fact:"own"` // "0000:4e:00.0"
	Minor    *int   `json:"minor" fact:"own"`   // N of /dev/nvidiaN or /dev/dri/renderDN
	NUMANode *int   `json:"numa_node"`
	CPUs     string `json:"cpus,omitempty"` // nearest processors as a kernel list, "0-31,64-95"

	Memory     int64  `json:"memory" unit:"bytes"`
	MemoryUsed *int64 `json:"memory_used" fact:"volatile" unit:"bytes"`
	// MemoryReserved is how many bytes the driver keeps for itself. They are not part of
	// MemoryUsed.
	MemoryReserved *int64 `json:"memory_reserved" fact:"volatile" unit:"bytes"`

	Link  PCILink  `json:"link"`
	Clock GPUClock `json:"clock" unit:"MHz"`
	Power GPUPower `json:"power" unit:"W"`
	// Temperature and SlowdownAt are in °C. The GPU throttles at SlowdownAt.
	Temperature *int `json:"temperature" fact:"volatile" unit:"°C"`
	SlowdownAt  *int `json:"slowdown_at" unit:"°C"`
	// Throttle lists the reasons why the clocks are low now, by NVML's names without prefix:
	// gpu-idle, applications-clocks, sw-power-cap, hw-slowdown, sync-boost, sw-thermal, hw-thermal,
	// hw-power-brake, display-clocks.
	Throttle    []string `json:"throttle" fact:"volatile"`
	Utilization *int     `json:"utilization" fact:"volatile" unit:"%"`

	Persistence *bool  `json:"persistence"`
	ComputeMode string `json:"compute_mode,omitempty"` // default, exclusive-process or prohibited
	// MIG is enabled or disabled, or "" if the GPU does not support MIG. MIGPending is the state of
	// MIG after the next reset. MIGDevices lists the instances' names ("1g.10gb").
	MIG        string   `json:"mig,omitempty"`
	MIGPending string   `json:"mig_pending,omitempty"`
	MIGDevices []string `json:"mig_devices,omitempty"`

	ECC       *ECC       `json:"ecc"`
	Retired   *Retired   `json:"retired"`
	Remapped  *Remapped  `json:"remapped"`
	Processes []GPUUser  `json:"processes" fact:"volatile"` // nil if the driver does not report them
	NVLinks   *NVLinks   `json:"nvlinks"`                   // nil if the GPU has no NVLinks
	Fabric    *GPUFabric `json:"fabric"`
}

// PCILink is a GPU's PCI Express link. The current generation of the link drops while the GPU
// idles; its width does not.
type PCILink struct {
	Generation    int `json:"generation" fact:"volatile"`
	MaxGeneration int `json:"max_generation"` // the best generation that GPU and slot both support
	Width         int `json:"width"`
	MaxWidth      int `json:"max_width"`
	// Replays is how many packets were sent again since the driver was loaded.
	Replays *int64 `json:"replays" fact:"volatile"`
}

// GPUClock holds clock rates in MHz; 0 means not reported.
type GPUClock struct {
	SM        int `json:"sm" fact:"volatile"`
	MaxSM     int `json:"max_sm"`
	Memory    int `json:"memory" fact:"volatile"`
	MaxMemory int `json:"max_memory"`
	// AppSM is the SM clock that is set for applications, 0 if none is set.
	AppSM int `json:"app_sm"`
}

// GPUPower holds power values in watts; 0 means not reported.
type GPUPower struct {
	Draw    float64 `json:"draw" fact:"volatile"`
	Limit   float64 `json:"limit"`   // the limit in force
	Default float64 `json:"default"` // the limit as set in the factory
	Max     float64 `json:"max"`
}

// ECC describes the error correction of the GPU's memory.
type ECC struct {
	Enabled bool  `json:"enabled"`
	Pending *bool `json:"pending,omitempty"` // state after the next reset
	// Corrected and Uncorrected count the errors since the driver was loaded. The Aggregate… fields
	// count the errors over the GPU's lifetime. nil means not reported.
	Corrected            *int64 `json:"corrected" fact:"volatile"`
	Uncorrected          *int64 `json:"uncorrected" fact:"volatile"`
	AggregateCorrected   *int64 `json:"aggregate_corrected" fact:"own" lasting:"no"`
	AggregateUncorrected *int64 `json:"aggregate_uncorrected" fact:"own" lasting:"no"`
	// SRAMExceeded reports whether the GPU's SRAM had so many errors that NVIDIA asks users to have
	// the GPU diagnosed. It is nil if not reported.
	SRAMExceeded *bool `json:"sram_exceeded"`
}

// Retired counts memory pages that were taken out of use, on GPUs before Ampere.
type Retired struct {
	SingleBit int  `json:"single_bit" fact:"own" lasting:"no"`
	DoubleBit int  `json:"double_bit" fact:"own" lasting:"no"`
	Pending   bool `json:"pending"`
}

// Remapped counts memory rows that were replaced by spare rows, on Ampere and later.
type Remapped struct {
	Corrected   int  `json:"corrected" fact:"own" lasting:"no"`
	Uncorrected int  `json:"uncorrected" fact:"own" lasting:"no"`
	Pending     bool `json:"pending"` // the GPU needs a reset
	Failed      bool `json:"failed"`  // no spare rows are left
}

// GPUUser is a process that uses a GPU.
type GPUUser struct {
	PID int `json:"pid"`
	// Name is the name of the program, "" if the process is not in the process table that preflight
	// sees.
	Name   string `json:"name"`
	User   string `json:"user,omitempty"`
	Kind   string `json:"kind"` // compute, graphics or mps
	Memory *int64 `json:"memory" unit:"bytes"`
}

// NVLinks describes the links of a GPU. Properties that all links share are stored once, because a
// fleet of a thousand machines has some hundred thousand links.
//
// The links of AMD's GPUs are XGMI. Each link leads to another GPU of the machine and has that
// GPU's index. A missing XGMI link may be due to how the machine is built.
type NVLinks struct {
	Count int   `json:"count"`          // number of links that the GPU has
	Down  []int `json:"down,omitempty"` // indices of the links that are not active
	// Speed is the speed of the fastest active link in one direction in bit/s, 0 if not reported.
	// Slow lists the active links that are slower.
	Speed int64 `json:"speed" unit:"bit/s"`
	Slow  []int `json:"slow,omitempty"`
	// RemoteKind is gpu, switch, other or "mixed", or "" if not reported. Remotes lists the PCI
	// addresses of the links' remote ends, by link, "" if not reported. Remotes is nil if all links
	// lead to switches.
	RemoteKind string   `json:"remote_kind,omitempty"`
	Remotes    []string `json:"remotes,omitempty" fact:"own"`
	// Counted reports whether the driver gives error counters. Errors lists the links with errors
	// since the driver was loaded.
	Counted bool           `json:"counted"`
	Errors  []NVLinkErrors `json:"errors,omitempty" fact:"volatile"`
}

// NVLinkErrors holds the error counters of one link; 0 means not reported.
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

// GPUFabric describes a GPU's place in an NVLink fabric with switches.
type GPUFabric struct {
	State   string `json:"state"`            // not-supported, not-started, in-progress or completed
	Status  string `json:"status,omitempty"` // "" for success, otherwise NVML's message
	Cluster string `json:"cluster,omitempty"`
	Clique  int    `json:"clique"`
	// Health is the fabric's summary: healthy, unhealthy or limited-capacity. It is "" if not
	// reported, as by older drivers.
	Health string `json:"health"`
	// Degraded lists the parts that the health mask names: bandwidth, route-recovery, route,
	// access-timeout, configuration.
	Degraded []string `json:"degraded,omitempty"`
}
