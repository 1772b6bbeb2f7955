// SPDX-License-Identifier: Apache-2.0

package facts

// GPU describes the accelerators of a node as the kernel and the file system show them. This
// section calls no driver, so a broken driver cannot block it. It describes NVIDIA's GPUs. On nodes
// without NVIDIA GPUs it describes AMD's, for which only Devices, Driver, OnBus, Doors and ROCm are
// set.
type GPU struct {
	// Devices lists the device nodes, one per GPU: /dev/nvidia0, /dev/dri/renderD128, … In a
	// container these are the GPUs that the container was given.
	Devices []string `json:"devices"`
	// Driver lists the GPUs that the kernel driver uses, by PCI address. It is nil if no driver is
	// loaded. In a container it lists the GPUs of the whole machine.
	Driver []string `json:"driver" fact:"own"`
	// Others lists device nodes of other vendors' accelerators, such as /dev/accel/accel0 and
	// /dev/davinci0. On nodes with NVIDIA GPUs it also lists "/dev/kfd node 1". It distinguishes a
	// node without an accelerator from one with an accelerator that preflight does not examine.
	Others []string `json:"others,omitempty"`

	// OnBus lists the GPUs on the PCI bus by address, with or without a driver. It is nil if /sys
	// does not show the bus. AMD's GPUs that only drive a display are left out.
	OnBus []PCIGPU `json:"on_bus" fact:"own"`
	// NVSwitches counts NVIDIA's switches on the PCI bus. A machine with NVSwitches needs a fabric
	// manager. Later generations of the switches are not on the bus.
	NVSwitches int `json:"nvswitches"`
	// SwitchDoors lists the names of RDMA adapters ("mlx5_0") that manage switches which are not on
	// the PCI bus. These adapters carry no data. The list is empty if there are none, or if the
	// switches are on the bus. It is nil if the adapters' product data could not be read, which
	// needs root.
	SwitchDoors []string `json:"switch_doors"`
	// Module is the version of the loaded kernel module ("550.54.15"), "" if none is loaded.
	// OpenModule reports whether the loaded module is the open one.
	Module     string `json:"module"`
	OpenModule bool   `json:"open_module"`
	// Modules lists which of these modules are loaded, sorted: nvidia, nvidia_uvm, nvidia_peermem,
	// nv_peer_mem, gdrdrv and nouveau.
	Modules []string `json:"modules"`
	// Modprobe reports whether nvidia-modprobe is installed with root's rights, so that CUDA can
	// load modules and create missing device nodes.
	Modprobe bool `json:"modprobe"`
	// Doors lists the device nodes that every GPU process opens (/dev/nvidiactl and /dev/nvidia-uvm
	// for CUDA, /dev/kfd for ROCm), and the device nodes of the GPUs. Each entry has the reason if
	// this session cannot use the device node.
	Doors []DeviceNode `json:"doors" fact:"key=path"`
	// Libcuda lists every libcuda.so.1 that a rank could load, in the loader's order: the rank
	// loads the first. Directories of forward-compatibility packages are included.
	Libcuda []DriverLibrary `json:"libcuda" fact:"key=path"`
	// ROCm is the release in /opt/rocm, such as "6.2.0-66", or "" if none is installed.
	ROCm string `json:"rocm"`
	// Ascend is the installed release of Huawei's Ascend driver, such as "24.1.rc2", or "" for
	// none.
	Ascend string `json:"ascend"`
	// FabricManager is nil if no fabric manager is installed and no NVSwitch is visible.
	FabricManager *FabricManager `json:"fabric_manager"`
	// IMEX is the service through which CUDA shares memory between machines that NVLink connects.
	// nil means that the node did not report it. If it is not nil, all its parts may still be
	// missing.
	IMEX *IMEX `json:"imex"`
	// IOMMU is "off", "passthrough" or "translated"; "" if the kernel does not show it.
	IOMMU string `json:"iommu"`
	// Redirecting lists PCI bridges above GPUs or RDMA adapters, by address, whose access control
	// sends peer-to-peer traffic through the root complex. It is nil if this session may not read
	// the access control, which needs root.
	Redirecting []string `json:"redirecting" fact:"own"`
	// Xids lists the driver's own error messages in the kernel log since the driver's module was
	// loaded. It holds the last 100 at most, newest last. It is nil if the log cannot be read;
	// XidsUnread has the reason. SXids lists the same messages for NVSwitches.
	Xids       []Xid  `json:"xids" fact:"volatile"`
	SXids      []Xid  `json:"sxids" fact:"volatile"`
	XidsUnread string `json:"xids_unread,omitempty" fact:"own"`
}

// PCIGPU is one GPU on the PCI bus.
type PCIGPU struct {
	Address string `json:"address"` // "0000:4e:00.0"
	Device  string `json:"device"`  // PCI device id, "0x2330"
	Driver  string `json:"driver"`  // kernel driver bound to it: nvidia, amdgpu, nouveau, vfio-pci; "" for none
	// NUMANode is the GPU's NUMA node, -1 if the kernel does not report it.
	NUMANode int `json:"numa_node"`
	// Path lists the addresses on the way from the root complex to the GPU, with the GPU itself
	// last: "pci0000:3a", "0000:3a:01.0", "0000:4e:00.0".
	Path []string `json:"path"`
}

// DeviceNode is one file of /dev.
type DeviceNode struct {
	Path string `json:"path"`
	// Problem says why this session cannot use the file; it is "" if the session can. The values
	// are "no such file or directory", "permission denied" (the file's mode) and "operation not
	// permitted" (a cgroup).
	Problem string `json:"problem,omitempty"`
}

// DriverLibrary is one library file of the driver's user-space part.
type DriverLibrary struct {
	Path    string `json:"path"`    // path where the loader finds the library
	Version string `json:"version"` // taken from the name of the file that Path links to, "550.54.15"; "" if that name has no version
	// From is the rule by which the loader finds the library: LD_LIBRARY_PATH, ld.so.cache,
	// default.
	From string `json:"from"`
	// Compat reports whether the library comes from a cuda-compat package.
	Compat bool `json:"compat,omitempty"`
	// Branches lists the driver branches that a cuda-compat library works with, by their first
	// number: 535, 550. It is nil if the library does not name them.
	Branches []int `json:"branches,omitempty"`
	// Problem says why the loader cannot load the file: "0 bytes", "not an ELF file". It is "" if
	// the file looks whole, and if it cannot be read.
	Problem string `json:"problem,omitempty"`
}

// FabricManager is the service that configures NVSwitches.
type FabricManager struct {
	Installed bool   `json:"installed"`
	Version   string `json:"version"` // "550.54.15", "" if the program does not report it
	// State is systemd's state of the unit: active, inactive, failed, activating. It is "" if
	// systemd cannot be asked, as in a container.
	State string `json:"state"`
	// Running reports whether the service's process exists.
	Running bool `json:"running"`
}

// IMEX is NVIDIA's Internode Memory Exchange. It consists of channels, which are device nodes of
// the driver, and a service that passes memory to the same service on other machines.
type IMEX struct {
	// Channels lists the /dev/nvidia-caps-imex-channels/channelN device nodes. Each entry has the
	// reason if this session cannot use the device node.
	Channels []DeviceNode `json:"channels" fact:"key=path"`
	// Installed, State and Running describe nvidia-imex, in the same way as in FabricManager.
	Installed bool   `json:"installed"`
	State     string `json:"state"`
	Running   bool   `json:"running"`
	// Peers lists the machines in the service's nodes_config.cfg, sorted, by address or name. It is
	// nil if the file cannot be read; PeersUnread has the reason.
	Peers       []string `json:"peers"`
	PeersUnread string   `json:"peers_unread,omitempty" fact:"own"`
}

// Xid is one error of a GPU or an NVSwitch that the driver wrote to the kernel log.
type Xid struct {
	Code    int     `json:"code"`
	Address string  `json:"address"`      // PCI address as the driver prints it: "0000:4e:00"; for a switch "0000:05:00.0"
	Age     float64 `json:"age" unit:"s"` // seconds since the driver wrote the error
	Text    string  `json:"text"`         // the message after the code
}
