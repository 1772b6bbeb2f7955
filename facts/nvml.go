// SPDX-License-Identifier: Apache-2.0

package facts

// NVML is what a driver says of itself and of its GPUs: NVIDIA's through its management
// library, AMD's through its files in /sys if the node shows nothing of NVIDIA. Everything that an old driver, a GPU or a permission does not give
// is nil or "".
type NVML struct {
	// Source is who was asked: "nvml", [SourceAMD], or "" for nobody.
	Source string `json:"source"`
	// Asked is false on a node that shows neither of them, where nobody was asked.
	Asked bool `json:"asked"`
	// Failure is why there is no answer, or why it ended early; nil when all came.
	// Cards has those that came before.
	Failure *NVMLFailure `json:"failure"`

	// Driver is the version of the loaded kernel module, "550.54.15"; of an amdgpu that came
	// with the kernel and has none of its own, the kernel's: "6.8.0-45-generic".
	Driver  string `json:"driver"`
	Library string `json:"library"` // of the NVML that answered, "12.550.54.15"
	CUDA    string `json:"cuda"`    // the newest CUDA the driver runs, "12.4"
	// Cards are the GPUs by index, as NVML orders them: by PCI address.
	Cards []Card `json:"cards" fact:"key=index"`
	// Hidden counts GPUs that the driver has and does not show to this session: they
	// have an index, and are not among Cards.
	Hidden int `json:"hidden,omitempty" fact:"own"`
	// Unshown are GPUs' device nodes that belong to none of Cards, and what this
	// session is refused there: "operation not permitted" by the cgroup of a job or a
	// container, "" where nothing but the driver is in the way. nil where a card did not tell its Minor.
	Unshown []DeviceNode `json:"unshown,omitempty" fact:"own"`
	// Topology is what joins the i-th of Cards with the j-th, as nvidia-smi topo -m prints
	// it: NV18, PIX, PXB, PHB, NODE, SYS, "" for not told and X with itself; nil when not asked.
	Topology [][]string `json:"topology"`
	// Peers is whether the i-th of Cards can read and write the j-th's memory: "ok", or NVML's
	// reason: chipset-not-supported, gpu-not-supported, topology-not-supported,
	// disabled-by-regkey, not-supported, unknown; "" for not told and X with itself.
	Peers [][]string `json:"peers" fact:"own"`
}

// SourceAMD is the kernel module of AMD's GPUs, whose files in /sys are read.
const SourceAMD = "amdgpu"

// CallRAS is what amdgpu is asked for errors that a GPU counted, as Failure and Refused name it.
const CallRAS = "ras/*_err_count"

// NVMLFailure is a call that did not come back with an answer.
type NVMLFailure struct {
	// Kind is one of the FailureXxx words.
	Kind string `json:"kind"`
	Code int    `json:"code,omitempty" fact:"own"` // nvmlReturn_t, 0 where it is not one
	Call string `json:"call,omitempty" fact:"own"` // "nvmlInit_v2"
	// Text is what was said: NVML's words or the loader's.
	Text string `json:"text" fact:"own"`
}

// The kinds of failure.
const (
	FailureNoLibrary    = "no-library"    // libnvidia-ml.so.1 cannot be loaded
	FailureNoDriver     = "no-driver"     // 9: the kernel module is not loaded
	FailureMismatch     = "mismatch"      // 18: library and kernel module are of two versions
	FailureNoPermission = "no-permission" // 4
	FailureUnknown      = "unknown"       // 999, as in a container whose device cgroup lost the GPUs
	FailureLost         = "lost"          // 15: the GPU fell off the bus
	FailureReset        = "reset"         // 16: the GPU wants a reset
	FailureNotFound     = "not-found"     // 6: the driver is there and has no GPU
	FailureHung         = "hung"          // no answer in time, killed
	FailureStuck        = "stuck"         // no answer in time, and could not be killed
	FailureCrashed      = "crashed"       // a signal, or the loader's "symbol lookup error"
	FailureOther        = "other"         // any other code
)

// Card is one GPU.
type Card struct {
	Index int `json:"index"`
	// Failure is why the GPU cannot be used: there is no handle of it, it is lost,
	// wants a reset, lacks power or its interrupts, or did not answer.
	Failure *NVMLFailure `json:"failure,omitempty"`
	// Refused are other calls that failed for more than not being supported, each once:
	// what they would have told is not told.
	Refused []NVMLFailure `json:"refused,omitempty" fact:"volatile" lasting:"yes"`
	// Recovery is what the driver wants done about the GPU: none, reset, reboot, drain
	// (of what other GPUs have in its memory), drain-and-reset, recover-imex, bus-reset,
	// system-reboot, other for what only newer drivers ask for; "" for not told, as by older ones.
	Recovery string `json:"recovery,omitempty" fact:"volatile"`

	UUID   string `json:"uuid" fact:"own"`
	Name   string `json:"name"` // "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X OAM"
	Serial string `json:"serial,omitempty" fact:"own"`
	VBIOS  string `json:"vbios,omitempty"`
	// Firmware are the versions of what amdgpu loaded into one of AMD's GPUs, by part:
	// "mec": "0x00000095"; nil where the driver tells none.
	Firmware   map[string]string `json:"firmware"`
	Capability string            `json:"capability,omitempty"` // compute capability, "9.0"
	// Target is what code for one of AMD's GPUs is compiled for, "gfx942".
	Target   string `json:"target"`
	Address  string `json:"address" fact:"own"` // "0000:4e:00.0"
	Minor    *int   `json:"minor" fact:"own"`   // of /dev/nvidiaN, of /dev/dri/renderDN
	NUMANode *int   `json:"numa_node"`
	CPUs     string `json:"cpus,omitempty"` // nearest processors as a kernel list, "0-31,64-95"

	Memory     int64  `json:"memory" unit:"bytes"`
	MemoryUsed *int64 `json:"memory_used" fact:"volatile" unit:"bytes"`
	// MemoryReserved is what the driver keeps for itself, and is not part of MemoryUsed.
	MemoryReserved *int64 `json:"memory_reserved" fact:"volatile" unit:"bytes"`

	Link  PCILink  `json:"link"`
	Clock GPUClock `json:"clock" unit:"MHz"`
	Power GPUPower `json:"power" unit:"W"`
	// Temperature is in °C, SlowdownAt where the GPU brakes.
	Temperature *int `json:"temperature" fact:"volatile" unit:"°C"`
	SlowdownAt  *int `json:"slowdown_at" unit:"°C"`
	// Throttle are the reasons why the clocks are low now, by NVML's names without
	// prefix: gpu-idle, applications-clocks, sw-power-cap, hw-slowdown, sync-boost,
	// sw-thermal, hw-thermal, hw-power-brake, display-clocks.
	Throttle    []string `json:"throttle" fact:"volatile"`
	Utilization *int     `json:"utilization" fact:"volatile" unit:"%"`

	Persistence *bool  `json:"persistence"`
	ComputeMode string `json:"compute_mode,omitempty"` // default, exclusive-process, prohibited
	// MIG is enabled or disabled, "" where the GPU knows none. MIGPending is what a
	// reset will make of it. MIGDevices are the instances' names ("1g.10gb").
	MIG        string   `json:"mig,omitempty"`
	MIGPending string   `json:"mig_pending,omitempty"`
	MIGDevices []string `json:"mig_devices,omitempty"`

	ECC       *ECC       `json:"ecc"`
	Retired   *Retired   `json:"retired"`
	Remapped  *Remapped  `json:"remapped"`
	Processes []GPUUser  `json:"processes" fact:"volatile"` // nil when they are not told
	NVLinks   *NVLinks   `json:"nvlinks"`                   // nil where the GPU knows none
	Fabric    *GPUFabric `json:"fabric"`
}

// PCILink is a GPU's way into the machine. What it runs at now is lower while
// the GPU idles; the width is not.
type PCILink struct {
	Generation    int `json:"generation" fact:"volatile"`
	MaxGeneration int `json:"max_generation"` // of GPU and slot together
	Width         int `json:"width"`
	MaxWidth      int `json:"max_width"`
	// Replays counts packets sent again since the driver was loaded.
	Replays *int64 `json:"replays" fact:"volatile"`
}

// GPUClock is in MHz, 0 for not told.
type GPUClock struct {
	SM        int `json:"sm" fact:"volatile"`
	MaxSM     int `json:"max_sm"`
	Memory    int `json:"memory" fact:"volatile"`
	MaxMemory int `json:"max_memory"`
	// AppSM is what the SM clock was set to for applications, 0 for not at all.
	AppSM int `json:"app_sm"`
}

// GPUPower is in watts, 0 for not told.
type GPUPower struct {
	Draw    float64 `json:"draw" fact:"volatile"`
	Limit   float64 `json:"limit"`   // in force
	Default float64 `json:"default"` // as the GPU left the factory
	Max     float64 `json:"max"`
}

// ECC is error correction of the GPU's memory.
type ECC struct {
	Enabled bool  `json:"enabled"`
	Pending *bool `json:"pending,omitempty"` // after the next reset
	// Since the driver was loaded, and since the GPU was made. nil for not told.
	Corrected            *int64 `json:"corrected" fact:"volatile"`
	Uncorrected          *int64 `json:"uncorrected" fact:"volatile"`
	AggregateCorrected   *int64 `json:"aggregate_corrected" fact:"own" lasting:"no"`
	AggregateUncorrected *int64 `json:"aggregate_uncorrected" fact:"own" lasting:"no"`
	// SRAMExceeded is whether the SRAM of the GPU had so many errors that NVIDIA wants the GPU
	// diagnosed; nil for not told.
	SRAMExceeded *bool `json:"sram_exceeded"`
}

// Retired are pages of memory taken out of use, on GPUs before Ampere.
type Retired struct {
	SingleBit int  `json:"single_bit" fact:"own" lasting:"no"`
	DoubleBit int  `json:"double_bit" fact:"own" lasting:"no"`
	Pending   bool `json:"pending"`
}

// Remapped are rows of memory replaced by spare ones, on Ampere and later.
type Remapped struct {
	Corrected   int  `json:"corrected" fact:"own" lasting:"no"`
	Uncorrected int  `json:"uncorrected" fact:"own" lasting:"no"`
	Pending     bool `json:"pending"` // needs a reset
	Failed      bool `json:"failed"`  // no spare rows are left
}

// GPUUser is a process that uses a GPU.
type GPUUser struct {
	PID int `json:"pid"`
	// Name is the program's, "" when the process is not in our process table.
	Name   string `json:"name"`
	User   string `json:"user,omitempty"`
	Kind   string `json:"kind"` // compute, graphics, mps
	Memory *int64 `json:"memory" unit:"bytes"`
}

// NVLinks are the links of a GPU. What every link has alike is said once: a
// fleet of a thousand machines has some hundred thousand of them. Of AMD's, whose links are
// XGMI, a link is the way to another GPU of the machine and has that one's index; that it
// is not there may as well be how the machine is built.
type NVLinks struct {
	Count int   `json:"count"`          // that the GPU has
	Down  []int `json:"down,omitempty"` // not active
	// Speed is of one direction in bit/s, of the fastest active link, 0 for not
	// told; Slow are the active ones below it.
	Speed int64 `json:"speed" unit:"bit/s"`
	Slow  []int `json:"slow,omitempty"`
	// RemoteKind is gpu, switch, other, "mixed", or "" for not told; Remotes are the
	// PCI addresses of the far ends by link, "" for not told, and nil where all lead
	// to switches.
	RemoteKind string   `json:"remote_kind,omitempty"`
	Remotes    []string `json:"remotes,omitempty" fact:"own"`
	// Counted is whether the driver tells error counters, and Errors are the links
	// that have any since it was loaded.
	Counted bool           `json:"counted"`
	Errors  []NVLinkErrors `json:"errors,omitempty" fact:"volatile"`
}

// NVLinkErrors are the counters of one link, 0 where one is not told.
type NVLinkErrors struct {
	Link       int   `json:"link"`
	Replays    int64 `json:"replays,omitempty"`
	Recoveries int64 `json:"recoveries,omitempty"`
	CRC        int64 `json:"crc,omitempty"`

	// Of links of the fifth generation, which count no replays and no CRC errors: recoveries
	// after which the link stayed down, errors in packets and in symbols, and the share of
	// bits that are wrong in packets.
	FailedRecoveries int64   `json:"failed_recoveries,omitempty"`
	Effective        int64   `json:"effective,omitempty"`
	Symbol           int64   `json:"symbol,omitempty"`
	EffectiveBER     float64 `json:"effective_ber,omitempty"`
}

// GPUFabric is a GPU's place in an NVLink fabric with switches.
type GPUFabric struct {
	State   string `json:"state"`            // not-supported, not-started, in-progress, completed
	Status  string `json:"status,omitempty"` // "" for success, else NVML's words
	Cluster string `json:"cluster,omitempty"`
	Clique  int    `json:"clique"`
	// Health sums it up: healthy, unhealthy, limited-capacity; "" for not told, as by older drivers.
	Health string `json:"health"`
	// Degraded are what the health mask names: bandwidth, route-recovery, route, access-timeout, configuration.
	Degraded []string `json:"degraded,omitempty"`
}
