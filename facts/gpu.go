// SPDX-License-Identifier: Apache-2.0

package facts

// GPU is the accelerators of a node as the kernel and the file system show them.
// Nothing here asks a driver, so that a sick one cannot hold it up. It is NVIDIA's that are
// looked at, and AMD's where nothing here is NVIDIA's: of these there are Devices, Driver,
// OnBus, Doors and ROCm.
type GPU struct {
	// Devices are device nodes, one a GPU: /dev/nvidia0, /dev/dri/renderD128, … In a
	// container these are the GPUs it was given.
	Devices []string `json:"devices"`
	// Driver lists the GPUs the kernel driver holds, by PCI address, nil when no
	// driver is loaded. A container sees those of the whole machine.
	Driver []string `json:"driver" fact:"own"`
	// Others are accelerators of other makers by device node (/dev/accel/accel0,
	// /dev/davinci0, beside NVIDIA's also "/dev/kfd node 1"), to tell "no accelerator" from
	// one that is not looked at.
	Others []string `json:"others,omitempty"`

	// OnBus are the GPUs on the PCI bus, by address, whether or not a driver has them;
	// nil when /sys does not show the bus. Of AMD's, what only drives a display is not there.
	OnBus []PCIGPU `json:"on_bus" fact:"own"`
	// NVSwitches counts NVIDIA's switches on the PCI bus: a machine that has some
	// needs a fabric manager. Those of later generations do not show there.
	NVSwitches int `json:"nvswitches"`
	// SwitchDoors are the RDMA adapters behind which switches are that do not show on the bus,
	// by name: "mlx5_0". No data goes there. Empty for none and where switches show; nil where
	// the adapters' product data may not be read, which takes root.
	SwitchDoors []string `json:"switch_doors"`
	// Module is the version of the loaded kernel module ("550.54.15"), "" when none
	// is loaded; OpenModule is whether it is the open one.
	Module     string `json:"module"`
	OpenModule bool   `json:"open_module"`
	// Modules are those of nvidia, nvidia_uvm, nvidia_peermem, nv_peer_mem, gdrdrv and
	// nouveau that are loaded, sorted.
	Modules []string `json:"modules"`
	// Modprobe is whether nvidia-modprobe is installed with root's rights, so that CUDA
	// loads modules and makes device nodes that are missing.
	Modprobe bool `json:"modprobe"`
	// Doors are the device nodes that every process on GPUs opens (/dev/nvidiactl and
	// /dev/nvidia-uvm for CUDA, /dev/kfd for ROCm) and the GPUs' own, and what this session
	// is refused there.
	Doors []DeviceNode `json:"doors" fact:"key=path"`
	// Libcuda lists every libcuda.so.1 a rank could load, in the loader's order: the
	// first is the one it gets. Directories of forward compatibility are among them.
	Libcuda []DriverLibrary `json:"libcuda" fact:"key=path"`
	// ROCm is the release that is installed in /opt/rocm, "6.2.0-66"; "" for none.
	ROCm string `json:"rocm"`
	// Ascend is the release of the driver of Huawei's Ascend that is installed, "24.1.rc2"; "" for none.
	Ascend string `json:"ascend"`
	// FabricManager is nil where none is installed and no NVSwitch shows.
	FabricManager *FabricManager `json:"fabric_manager"`
	// IMEX is by which CUDA shares memory between machines that NVLink joins. It may all be
	// missing; nil is not told.
	IMEX *IMEX `json:"imex"`
	// IOMMU is "off", "passthrough" or "translated"; "" when the kernel does not show it.
	IOMMU string `json:"iommu"`
	// Redirecting are PCI bridges above GPUs or RDMA adapters whose access control
	// sends peer traffic through the root complex, by address; nil when this session
	// may not read it, which takes root.
	Redirecting []string `json:"redirecting" fact:"own"`
	// Xids are the driver's own error reports in the kernel log since its module was loaded, the
	// newest last, at most the last 100; nil when the log may not be read, for the reason in
	// XidsUnread. SXids are those of NVSwitches, likewise.
	Xids       []Xid  `json:"xids" fact:"volatile"`
	SXids      []Xid  `json:"sxids" fact:"volatile"`
	XidsUnread string `json:"xids_unread,omitempty" fact:"own"`
}

// PCIGPU is one GPU on the PCI bus.
type PCIGPU struct {
	Address string `json:"address"` // "0000:4e:00.0"
	Device  string `json:"device"`  // PCI device id, "0x2330"
	Driver  string `json:"driver"`  // kernel driver bound to it: nvidia, amdgpu, nouveau, vfio-pci; "" for none
	// NUMANode is -1 when the kernel does not say.
	NUMANode int `json:"numa_node"`
	// Path is the way from the root complex, by address, the GPU itself last:
	// "pci0000:3a", "0000:3a:01.0", "0000:4e:00.0".
	Path []string `json:"path"`
}

// DeviceNode is one file of /dev.
type DeviceNode struct {
	Path string `json:"path"`
	// Problem is why this session cannot use it: "no such file or directory",
	// "permission denied" by its mode, "operation not permitted" by a cgroup; "" when it can.
	Problem string `json:"problem,omitempty"`
}

// DriverLibrary is one file of the driver's user half.
type DriverLibrary struct {
	Path    string `json:"path"`    // as the loader finds it
	Version string `json:"version"` // from the name of the file it links to, "550.54.15"; "" when that does not say
	// From is the rule that finds it: LD_LIBRARY_PATH, ld.so.cache, default.
	From string `json:"from"`
	// Compat is whether it comes from a cuda-compat package.
	Compat bool `json:"compat,omitempty"`
	// Branches are the drivers that a library of such a package works with, by their first
	// number: 535, 550; nil where it does not say.
	Branches []int `json:"branches,omitempty"`
}

// FabricManager is the service that configures NVSwitches.
type FabricManager struct {
	Installed bool   `json:"installed"`
	Version   string `json:"version"` // "550.54.15", "" when the program does not say
	// State is systemd's word for the unit: active, inactive, failed, activating;
	// "" where systemd is not to be asked, as in a container.
	State string `json:"state"`
	// Running is whether its process is seen.
	Running bool `json:"running"`
}

// IMEX is NVIDIA's Internode Memory Exchange: channels, which are device nodes of the
// driver, and a service that hands memory on to its like on other machines.
type IMEX struct {
	// Channels are /dev/nvidia-caps-imex-channels/channelN and what this session is refused there.
	Channels []DeviceNode `json:"channels" fact:"key=path"`
	// Installed, State and Running are of nvidia-imex, as of a FabricManager.
	Installed bool   `json:"installed"`
	State     string `json:"state"`
	Running   bool   `json:"running"`
	// Peers are the machines of the service's nodes_config.cfg, sorted, by address or by name;
	// nil where there is none to be read, and PeersUnread says why.
	Peers       []string `json:"peers"`
	PeersUnread string   `json:"peers_unread,omitempty" fact:"own"`
}

// Xid is one error that the driver reported to the kernel log, of a GPU or of an NVSwitch.
type Xid struct {
	Code    int     `json:"code"`
	Address string  `json:"address"`      // PCI address as printed, "0000:4e:00", of a switch "0000:05:00.0"
	Age     float64 `json:"age" unit:"s"` // seconds since it was written
	Text    string  `json:"text"`         // what follows the code
}
