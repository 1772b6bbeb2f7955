// SPDX-License-Identifier: Apache-2.0

// Package gpu reads facts about accelerators: what the bus, the kernel and the file system show,
// and what the accelerators' driver reports. A separate process asks the driver, because the driver
// may hang or crash ([nvml]). The package does not wake up, reset or configure a GPU.
package gpu

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/machine"
)

// CollectGPU reads facts about accelerators. It describes NVIDIA's if there are any, otherwise
// AMD's. It reads what the kernel and the file system show of the driver. Only the driver itself
// can say whether it works, and CollectGPU does not ask it.
func CollectGPU(ctx context.Context, o machine.Options) (*facts.GPU, error) {
	gpu := &facts.GPU{Devices: deviceNodes(o, "/dev", "nvidia")}
	// The directory /proc/driver/nvidia/gpus exists only if the driver is loaded.
	if entries, err := os.ReadDir(o.At("/proc/driver/nvidia/gpus")); err == nil {
		gpu.Driver = []string{}
		for _, entry := range entries {
			gpu.Driver = append(gpu.Driver, entry.Name())
		}
	}
	gpu.Others = slices.Concat(deviceNodes(o, "/dev/accel", "accel"), deviceNodes(o, "/dev", "davinci"))
	gpu.Ascend = ascendRelease(o)
	if machine.Exists(o.At("/dev/dxg")) { // WSL 2 shows all GPUs of Windows as one device
		gpu.Others = append(gpu.Others, "/dev/dxg")
	}
	gpu.OnBus, gpu.NVSwitches = nvidiaOnBus(o)
	if !showsNVIDIA(o) {
		if showsAMD(o) {
			amdGPU(o, gpu)
		}
		return gpu, ctx.Err()
	}
	for _, node := range kfdGPUs(o) { // the loop finds GPUs such as a CPU's integrated graphics
		gpu.Others = append(gpu.Others, fmt.Sprintf("%s node %d", kfdDevice, node.number))
	}
	gpu.Modules = loadedModules(o)
	gpu.Module, gpu.OpenModule = driverModule(o)
	gpu.Modprobe = hasModprobe(o)
	gpu.Doors = accessibleNodes(o, gpu.Devices, gpu.Modules)
	gpu.Libcuda = findLibcuda(o, o.Getenv("LD_LIBRARY_PATH"))
	gpu.IOMMU = iommu(o, gpu.OnBus)
	gpu.Redirecting = redirectingBridges(o, gpu.OnBus)
	if gpu.SwitchDoors = []string{}; gpu.NVSwitches == 0 {
		gpu.SwitchDoors = switchDoors(o)
	}
	// Each of these goroutines may wait for a program, for no longer than fabricLimit.
	var asking sync.WaitGroup
	asking.Go(func() { gpu.FabricManager = fabricManager(ctx, o, gpu.NVSwitches+len(gpu.SwitchDoors)) })
	asking.Go(func() { gpu.IMEX = imex(ctx, o) })
	asking.Go(func() { gpu.Xids, gpu.SXids, gpu.XidsUnread = readXids(ctx, o) })
	asking.Wait()
	return gpu, ctx.Err()
}

// showsNVIDIA reports whether this machine shows anything from NVIDIA, so that preflight should ask
// the driver. That is a device node, the driver's directory, a GPU on the bus, or the single device
// in which WSL 2 shows all GPUs of Windows.
func showsNVIDIA(o machine.Options) bool {
	for _, sign := range []string{"/dev/nvidiactl", "/proc/driver/nvidia", "/dev/dxg"} {
		if machine.Exists(o.At(sign)) {
			return true
		}
	}
	gpus, _ := nvidiaOnBus(o)
	return len(gpus) > 0 || len(deviceNodes(o, "/dev", "nvidia")) > 0
}

// deviceNodes returns the device nodes of one kind, sorted by number. The result is never nil.
func deviceNodes(o machine.Options, dir, kind string) []string {
	entries, _ := os.ReadDir(o.At(dir)) // none if the directory does not exist
	numbers := []int{}
	for _, entry := range entries {
		digits, named := strings.CutPrefix(entry.Name(), kind)
		if number, err := strconv.ParseUint(digits, 10, 31); named && err == nil { // the number has no sign
			numbers = append(numbers, int(number))
		}
	}
	slices.Sort(numbers)
	nodes := []string{}
	for _, number := range numbers {
		nodes = append(nodes, filepath.Join(dir, kind+strconv.Itoa(number)))
	}
	return nodes
}

// ascendRelease returns the release that the driver's package has written in its installation
// directory.
//
// Source: Ascend's driver packages, which write /etc/ascend_install.info and driver/version.info:
// mindspore-ai/mindspore, CheckVmmDriverVersion, reads both so.
func ascendRelease(o machine.Options) string {
	installed, _ := hostsys.ReadFile(o.At("/etc/ascend_install.info")) // a container has only the driver's directory
	base, _ := machine.After(string(installed), "Driver_Install_Path_Param=")
	text, err := hostsys.ReadFile(o.At(filepath.Join(cmp.Or(base, "/usr/local/Ascend"), "driver/version.info")))
	if err != nil {
		return ""
	}
	release, _ := machine.After(string(text), "Version=")
	return machine.Clipped(release)
}

const pciDevices = "/sys/bus/pci/devices"

// nvidiaOnBus returns NVIDIA's GPUs on the PCI bus, by address, and the number of NVSwitches. The
// GPUs are nil if /sys does not show the bus. The sound and USB functions of a graphics card count
// as neither.
//
// The classes are those of the PCI Code and ID Assignment Specification: 0x0300 VGA, 0x0302 3D
// controller, 0x0680 other bridge.
func nvidiaOnBus(o machine.Options) (gpus []facts.PCIGPU, switches int) {
	entries, err := os.ReadDir(o.At(pciDevices))
	if err != nil {
		return nil, 0
	}
	gpus = []facts.PCIGPU{}
	for _, entry := range entries {
		dir := filepath.Join(o.At(pciDevices), entry.Name())
		if machine.Line(dir+"/vendor") != "0x10de" {
			continue
		}
		class := machine.Line(dir + "/class")
		switch {
		case strings.HasPrefix(class, "0x0300"), strings.HasPrefix(class, "0x0302"):
			gpus = append(gpus, pciGPU(dir))
		case strings.HasPrefix(class, "0x0680"):
			switches++
		}
	}
	return gpus, switches
}

func pciGPU(dir string) facts.PCIGPU {
	return facts.PCIGPU{
		Address:  filepath.Base(dir),
		Device:   machine.Line(dir + "/device"),
		Driver:   machine.Driver(dir),
		NUMANode: machine.NUMANode(dir),
		Path:     machine.PCIPath(dir),
	}
}
