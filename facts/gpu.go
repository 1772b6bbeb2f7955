// SPDX-License-Identifier: Apache-2.0

package facts

// GPU is the accelerators of a node as the kernel and the file system show them. Nothing here calls
// a driver, so a broken driver cannot block it. It describes NVIDIA's GPUs. On nodes without any,
// it describes AMD's, for which only Devices, Driver, OnBus, Doors and ROCm are set.
type GPU struct {
	// Devices are device nodes, one per GPU: /dev/nvidia0, /dev/dri/renderD128, … In a container
	// these are the GPUs that it was given.
	Devices []string `json:"devices"`
	// Driver lists the GPUs that the kernel driver uses, by PCI address; nil if no driver is
	// loaded. A container sees those of the whole machine.
	Driver []string `json:"driver" fact:"own"`
	// Others are device nodes of accelerators of other vendors: /dev/accel/accel0, /dev/davinci0,
	// and next to NVIDIA's also "/dev/kfd node 1". They distinguish "no accelerator" from one that
	// preflight does not examine.
	Others []string `json:"others,omitempty"`

	// OnBus are the GPUs on the PCI bus by address, with or without a driver; nil if /sys does not
	// show the bus. AMD's GPUs that only drive a display are left out.
	OnBus []PCIGPU `json:"on_bus" fact:"own"`
	// NVSwitches counts NVIDIA's switches on the PCI bus. A machine with NVSwitches needs a fabric
	// manager. Switches of later generations are not on the bus.
	NVSwitches int `json:"nvswitches"`
	// SwitchDoors are the names of RDMA adapters ("mlx5_0") that manage switches which are not on
	// the PCI bus. They carry no data. Empty if there are none or the switches are on the bus; nil
	// if the adapters' product data could not be read, which needs root.
	SwitchDoors []string `json:"switch_doors"`
	// Module is the version of the loaded kernel module ("550.54.15"), "" if none is loaded.
	// OpenModule reports whether it is the open one.
	Module     string `json:"module"`
	OpenModule bool   `json:"open_module"`
	// Modules are the loaded ones among nvidia, nvidia_uvm, nvidia_peermem, nv_peer_mem, gdrdrv and
	// nouveau, sorted.
	Modules []string `json:"modules"`
	// Modprobe reports whether nvidia-modprobe is installed with root's rights, so that CUDA can
	// load modules and create missing device nodes.
	Modprobe bool `json:"modprobe"`
	// Doors are the device nodes that every GPU process opens (/dev/nvidiactl and /dev/nvidia-uvm
	// for CUDA, /dev/kfd for ROCm) and those of the GPUs, each with the reason why this session
	// cannot use it.
	Doors []DeviceNode `json:"doors" fact:"key=path"`
	// Libcuda lists every libcuda.so.1 that a rank could load, in the loader's order: the rank gets
	// the first. Directories of forward-compatibility packages are included.
	Libcuda []DriverLibrary `json:"libcuda" fact:"key=path"`
	// ROCm is the release installed in /opt/rocm, "6.2.0-66"; "" for none.
	ROCm string `json:"rocm"`
	// Ascend is the installed release of Huawei's Ascend driver, "24.1.rc2"; "" for none.
	Ascend string `json:"ascend"`
	// FabricManager is nil if none is installed and no NVSwitch is visible.
	FabricManager *FabricManager `json:"fabric_manager"`
	// IMEX is the service through which CUDA shares memory between machines that NVLink connects.
	// All of its parts may be missing; nil means that it was not reported.
	IMEX *IMEX `json:"imex"`
	// IOMMU is "off", "passthrough" or "translated"; "" if the kernel does not show it.
	IOMMU string `json:"iommu"`
	// Redirecting are the addresses of PCI bridges above GPUs or RDMA adapters whose access control
	// sends peer-to-peer traffic through the root complex. nil if this session may not read that,
	// which needs root.
	Redirecting []string `json:"redirecting" fact:"own"`
	// Xids are the driver's own error messages in the kernel log since its module was loaded,
	// newest last, at most the last 100. nil if the log cannot be read; XidsUnread has the reason.
	// SXids are the same for NVSwitches.
	Xids       []Xid  `json:"xids" fact:"volatile"`
	SXids      []Xid  `json:"sxids" fact:"volatile"`
	XidsUnread string `json:"xids_unread,omitempty" fact:"own"`
}

// PCIGPU is one GPU on the PCI bus.
type PCIGPU struct {
	Address string `json:"address"` // "0000:4e:00.0"
	Device  string `json:"device"`  // PCI device id, "0x2330"
	Driver  string `json:"driver"`  // kernel driver bound to it: nvidia, amdgpu, nouveau, vfio-pci; "" for none
	// NUMANode is -1 if the kernel does not report it.
	NUMANode int `json:"numa_node"`
	// Path is the way from the root complex to the GPU, by address, the GPU itself last:
	// "pci0000:3a", "0000:3a:01.0", "0000:4e:00.0".
	Path []string `json:"path"`
}

// DeviceNode is one file of /dev.
type DeviceNode struct {
	Path string `json:"path"`
	// Problem is why this session cannot use it: "no such file or directory", "permission denied"
	// (its mode), "operation not permitted" (a cgroup). "" if it can.
	Problem string `json:"problem,omitempty"`
}

// DriverLibrary is one library file of the driver's user-space half.
type DriverLibrary struct {
	Path    string `json:"path"`    // as the loader finds it
	Version string `json:"version"` // from the name of the file that it links to, "550.54.15"; "" if that has no version
	// From is the rule by which the loader finds it: LD_LIBRARY_PATH, ld.so.cache, default.
	From string `json:"from"`
	// Compat reports whether it comes from a cuda-compat package.
	Compat bool `json:"compat,omitempty"`
	// Branches are the driver branches that a cuda-compat library works with, by their first
	// number: 535, 550. nil if the library does not say.
	Branches []int `json:"branches,omitempty"`
}

// FabricManager is the service that configures NVSwitches.
type FabricManager struct {
	Installed bool   `json:"installed"`
	Version   string `json:"version"` // "550.54.15", "" if the program does not report it
	// State is systemd's state of the unit: active, inactive, failed, activating. "" if systemd
	// cannot be asked, as in a container.
	State string `json:"state"`
	// Running reports whether its process exists.
	Running bool `json:"running"`
}

// IMEX is NVIDIA's Internode Memory Exchange. It consists of channels, which are device nodes of
// the driver, and a service that passes memory to the same service on other machines.
type IMEX struct {
	// Channels are /dev/nvidia-caps-imex-channels/channelN, each with the reason why this session
	// cannot use it.
	Channels []DeviceNode `json:"channels" fact:"key=path"`
	// Installed, State and Running describe nvidia-imex, as in FabricManager.
	Installed bool   `json:"installed"`
	State     string `json:"state"`
	Running   bool   `json:"running"`
	// Peers are the machines in the service's nodes_config.cfg, sorted, by address or name. nil if
	// the file cannot be read; PeersUnread has the reason.
	Peers       []string `json:"peers"`
	PeersUnread string   `json:"peers_unread,omitempty" fact:"own"`
}

// Xid is one error of a GPU or an NVSwitch that the driver wrote to the kernel log.
type Xid struct {
	Code    int     `json:"code"`
	Address string  `json:"address"`      // PCI address as printed, "0000:4e:00"; of a switch "0000:05:00.0"
	Age     float64 `json:"age" unit:"s"` // seconds since it was written
	Text    string  `json:"text"`         // what follows the code
}
