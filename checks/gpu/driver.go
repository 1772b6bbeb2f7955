// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

var DriverLoads = checks.Check{
	ID:       "gpu-driver-loads",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Run: func(view checks.View) []checks.Finding {
		return spoken(view, noGPUs, judgeDrivers(view))
	},
}

// What torch says of a driver that does not work (c10/cuda/CUDAFunctions.cpp and
// torch/csrc/cuda/Module.cpp, 2.5).
const (
	noGPUs       = "RuntimeError: No CUDA GPUs are available"
	noDriver     = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver"
	unknownCUDA  = "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero"
	busyCUDA     = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
	unlikeDriver = "Unexpected error from cudaGetDeviceCount() … Error 803: system has unsupported display driver / cuda driver combination"
	takesCPU     = "nothing but the time it takes: DeepSpeed takes the CPU"
	waitsForGPU  = "nothing: the ranks there hang when they first ask for a GPU, and the others in init_process_group until it times out"
)

// ofDriver is what a driver that does not answer leaves unlike a node's whose driver does.
var ofDriver = []string{"nvml", "gpu.devices", "gpu.doors", "gpu.fabric_manager", "gpu.libcuda", "gpu.module", "gpu.modules", "gpu.open_module"}

// meantCPU is for a launch of which nobody said what it computes on.
var meantCPU = fix.Here("preflight --accelerator cpu …   # if the CPU is meant")

func judgeDrivers(view checks.View) []checks.Finding {
	nodes, reason := askedGPUs(view)
	if reason != "" {
		return checks.Skipped(reason)
	}
	slotsOf := view.Launch.SlotsUsed()
	var findings []checks.Finding
	// A display's GPU in a cluster for the CPU is in the hands of the system's own driver.
	displays := !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return !slices.Contains(busDrivers(n), "nouveau") })
	for _, node := range nodes {
		switch failure := node.NVML.Failure; {
		case failure != nil:
			f := driverFailure(node, *failure)
			f.Covers = ofDriver
			if view.Launch.Accelerator == "cpu" { // nobody said so
				f.WouldSee, f.Remedy = takesCPU, append(f.Remedy, meantCPU)
				if displays {
					f.Verdict = checks.Warn
				}
			}
			findings = append(findings, f)
		case node.GPU == nil:
			findings = append(findings, checks.UnknownFor(node, checks.Check{Needs: []facts.Section{facts.SectionGPU}}.Missing(node)))
		default:
			found := slices.Concat(closedDevices(node), lacksLibcuda(node), unheldGPUs(view, node, slotsOf(node)))
			findings = append(findings, checks.OfNode(node, found...)...)
		}
	}
	return findings
}

func driverFailure(node *facts.Node, failure facts.NVMLFailure) checks.Finding {
	f := checks.Finding{Summary: "the driver fails", Remedy: []fix.Command{fix.On("nvidia-smi"), driverLog}}
	if describe, known := driverFailures[failure.Kind]; known {
		f = describe(node)
	}
	f.Nodes = []string{node.Name}
	if f.Got != "" {
		f.Got += "; "
	}
	if failure.Call != "" {
		f.Got += failure.Call + ": "
	}
	f.Got += compare.Shown(failure.Text) + when(failure.Code != 0, " (%d)", failure.Code)
	return f
}

// moduleUnreachable is where NVML finds no driver although its kernel module is loaded: by
// its device nodes, if they are missing or refused.
func moduleUnreachable(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary: "NVIDIA's kernel module is loaded, and its device nodes are missing", Got: "module " + node.GPU.Module,
		Want: "/dev/nvidiactl and a /dev/nvidiaN for each GPU", WouldSee: noDriver,
		Remedy: orStartWithGPUs(node, fix.On("sudo nvidia-modprobe -u -c=0"), fix.On("nvidia-smi -L")),
	}
	control := slices.IndexFunc(node.GPU.Doors, func(door facts.DeviceNode) bool { return door.Path == "/dev/nvidiactl" })
	switch {
	case control >= 0 && node.GPU.Doors[control].Problem == "" && len(node.GPU.Devices) > 0:
		f.Summary = "NVIDIA's kernel module is loaded and has its device nodes, and its library finds no driver"
		f.Got += ", " + strings.Join(append([]string{"/dev/nvidiactl"}, node.GPU.Devices...), ", ")
		f.Want = "device nodes with the numbers of the module, and a module that accepted its GPUs"
		f.Remedy = []fix.Command{fix.On("ls -l /dev/nvidia*; grep -i nvidia /proc/devices   # do the major numbers agree?"), driverLog, reloadModule(node)}
		if container := ranks.ContainerOf(node); container != "" {
			f.Remedy = append(f.Remedy[:2:2], remedy.RestartContainer(container, fix.Code("it gets the device nodes of now"))...)
		}
	case control >= 0 && !slices.Contains(notThere, node.GPU.Doors[control].Problem):
		f.Summary = "NVIDIA's kernel module is loaded, and this session may not open its device nodes"
		f.Got, f.Want = closedDeviceNames(node), "device nodes that every rank may read and write"
		f.Remedy = orStartWithGPUs(node, openDevices...)
	}
	return f
}

// notThere is what the kernel says of a device node that is not there, or that is
// and has no module behind it.
var notThere = []string{"no such file or directory", "no such device or address", "no such device"}

// closedDevices are the device nodes that a rank cannot open although NVML answers.
// NCCL since 2.23 and CUDA itself need /dev/nvidia-uvm, which nobody else does. CUDA
// loads its module and makes the node on first use, where nvidia-modprobe is installed
// with its rights; a container has no such help. The node of a GPU that NVML does
// not show was not meant for us.
//
// Source: NVIDIA/nvidia-modprobe 550, modprobe-utils/nvidia-modprobe-utils.c.
func closedDevices(node *facts.Node) (findings []checks.Finding) {
	var missing, refused []string
	if slices.Contains(node.GPU.Others, launch.WindowsGPUs) {
		return nil // its libcuda goes through that door alone
	}
	for _, door := range node.GPU.Doors {
		switch {
		case door.Problem == "" || isOthersDevice(node, door.Path):
		case slices.Contains(notThere, door.Problem):
			missing = append(missing, door.Path+": "+door.Problem)
		default:
			refused = append(refused, door.Path+": "+door.Problem)
		}
	}
	if isAMD(node) {
		return closedToROCm(node, missing, refused)
	}
	if refused != nil {
		findings = append(findings, checks.Finding{
			Summary: "ranks may not open the driver's device nodes", Got: strings.Join(refused, ", "), WouldSee: unknownCUDA,
			Remedy: orStartWithGPUs(node, openDevices...),
		})
	}
	inContainer := ranks.ContainerOf(node) != ""
	if missing != nil && (inContainer || !node.GPU.Modprobe) {
		f := checks.Finding{
			Summary: "device nodes of the driver are missing, or their module is", Got: strings.Join(missing, ", "), WouldSee: unknownCUDA,
			Remedy: orStartWithGPUs(node, fix.On("sudo modprobe nvidia_uvm"), fix.On("sudo nvidia-modprobe -u -c=0")),
		}
		if !inContainer {
			f.Verdict = checks.Warn
			f.Want = "made before the launch: CUDA makes them on first use only where nvidia-modprobe is setuid root"
		}
		findings = append(findings, f)
	}
	return findings
}

// isOthersDevice is whether a device node is that of a GPU that NVML does not show.
func isOthersDevice(node *facts.Node, path string) bool {
	if !slices.Contains(node.GPU.Devices, path) {
		return false
	}
	number := path[strings.LastIndexFunc(path, unicode.IsLetter)+1:] // of /dev/nvidia3, of /dev/dri/renderD131
	for i := range node.NVML.Cards {                                 // by index: a card is large, and large fleets have many
		if minor := node.NVML.Cards[i].Minor; minor == nil || number == strconv.Itoa(*minor) {
			return false
		}
	}
	return true
}

func closedDeviceNames(node *facts.Node) string {
	var names []string
	for _, door := range valueOf(node.GPU).Doors {
		if door.Problem != "" {
			names = append(names, door.Path+": "+door.Problem)
		}
	}
	return strings.Join(names, ", ")
}

// lacksLibcuda is a node whose NVML answers and that has no CUDA driver for the
// ranks, as a container with the capability utility alone.
func lacksLibcuda(node *facts.Node) []checks.Finding {
	if len(node.GPU.Libcuda) > 0 || isAMD(node) {
		return nil
	}
	f := checks.Finding{
		Summary: "the driver answers, and its libcuda.so.1 is not in the loader's path", Want: "libcuda.so.1", WouldSee: noDriver,
		Remedy: orStartWithGPUs(node, fix.On(`ldconfig -p | grep libcuda; find /usr -name "libcuda.so.1"   # where it is, if it is: then name its directory in /etc/ld.so.conf.d and run ldconfig`)),
	}
	if module := moduleVersion(node); module != "" && ranks.ContainerOf(node) == "" {
		f.Remedy = append(f.Remedy, fix.On("sudo apt-get install -y libnvidia-compute-%s-server", fix.Name(hostfile.Release(module, 1))).Remark("Ubuntu; where it is not: of the kernel module's version"))
	}
	return []checks.Finding{f}
}

// driverFailures says of each kind of failure what it is and what repairs it.
var driverFailures = map[string]func(*facts.Node) checks.Finding{
	facts.FailureNoDriver:     moduleMissing,
	facts.FailureMismatch:     versionsDiffer,
	facts.FailureUnknown:      failsUnexplained,
	facts.FailureNoPermission: mayNotAsk,
	facts.FailureNotFound:     holdsNoGPU,
	facts.FailureNoLibrary:    librariesMissing,
	facts.FailureLost: always(checks.Finding{
		Summary:  "a GPU has fallen off the bus, and the driver answers for none",
		Remedy:   []fix.Command{driverLog, rebootNode.Remark("; where it stays away, power off and on"), withoutNode},
		WouldSee: unknownCUDA,
	}),
	facts.FailureReset: always(checks.Finding{
		Summary:  "a GPU wants a reset before it is used again",
		Remedy:   []fix.Command{resetGPUs, withoutNode},
		WouldSee: unknownCUDA,
	}),
	facts.FailureCrashed: always(checks.Finding{
		Summary:  "the driver's library crashes when it is asked",
		Want:     "libraries of one driver version",
		Remedy:   []fix.Command{fix.On("ldconfig -p | grep -e libcuda -e libnvidia-ml; cat /proc/driver/nvidia/version; nvidia-smi   # are there two versions?"), driverLog},
		WouldSee: "the ranks there crash when they first ask for a GPU (exits with return code = -11)",
	}),
	facts.FailureHung: always(checks.Finding{
		Summary:  "the driver does not answer",
		Want:     "an answer",
		Remedy:   []fix.Command{driverLog.Remark("an Xid names the GPU"), fix.On(`ps -eo pid,stat,wchan:30,etime,cmd | grep -e nvidia -e " D"   # who hangs in it`), rebootNode, withoutNode},
		WouldSee: waitsForGPU,
	}),
	facts.FailureStuck: always(checks.Finding{
		Summary:  "the driver does not answer, and who asks it cannot be killed any more",
		Want:     "an answer",
		Remedy:   []fix.Command{driverLog.Remark("an Xid names the GPU"), rebootNode.Remark(": nothing less frees a process that the kernel holds; where that hangs too: power off and on"), withoutNode},
		WouldSee: waitsForGPU,
	}),
}

// always is of a failure that is the same on every node.
func always(f checks.Finding) func(*facts.Node) checks.Finding {
	return func(*facts.Node) checks.Finding { return f }
}

var installDriver = fix.On("sudo ubuntu-drivers install --gpgpu   # Ubuntu; elsewhere the driver of NVIDIA's repository")

var xidLog = fix.On("sudo dmesg -T | grep -i xid")

var driverLog = fix.On("sudo dmesg -T | grep -E 'NVRM|Xid|nvidia' | tail -20")

// failsUnexplained is NVML's error 999. Containers get it when systemd on their
// machine reloads and writes their device cgroup anew (NVIDIA/nvidia-docker, issue
// 1730; NVIDIA/nvidia-container-toolkit, issue 1227).
func failsUnexplained(node *facts.Node) checks.Finding {
	f := checks.Finding{Summary: "the driver fails with an unknown error", WouldSee: unknownCUDA}
	container := ranks.ContainerOf(node)
	if container == "" {
		f.Remedy = []fix.Command{driverLog, rebootNode}
		return f
	}
	f.Summary = "the container has lost the right to its GPUs, as when systemd on its machine reloads"
	f.Remedy = remedy.RestartContainer(container, fix.Code("it gets them back"))
	if container == "docker" {
		f.Remedy = append(f.Remedy, fix.Here("docker run --gpus all --device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm …   # with every device named, it keeps them"))
	}
	return f
}

// mayNotAsk is NVML's error 4.
func mayNotAsk(node *facts.Node) checks.Finding {
	return checks.Finding{
		Summary: "this account may not use NVIDIA's driver", Got: closedDeviceNames(node), Want: "device nodes that every rank may read and write", WouldSee: noGPUs,
		Remedy: orStartWithGPUs(node, openDevices...),
	}
}

// openDevices are for device nodes that their mode closes: the module sets it.
var openDevices = []fix.Command{
	fix.On("ls -l /dev/nvidia*; id; grep -rn NVreg_DeviceFile /etc/modprobe.d   # whom they are for"),
	fix.On("sudo chmod a+rw /dev/nvidia*   # until the next boot; NVreg_DeviceFileMode=0666 in /etc/modprobe.d, or the account in their group, lasts"),
}

// holdsNoGPU is NVML's error 6, or a driver that counts none.
func holdsNoGPU(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary: "the driver is loaded and has no GPU", Want: "the GPUs of the machine", WouldSee: noGPUs,
		Remedy: orStartWithGPUs(node, fix.On("lspci -k -d 10de:   # are they there, and which driver holds them?"), driverLog),
	}
	if ranks.ContainerOf(node) != "" {
		f.Summary = "the container was given no GPU"
	}
	return f
}

// librariesMissing describes a node on which NVML cannot be loaded.
func librariesMissing(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary: "there are GPUs, and NVIDIA's driver is not installed", Want: "libnvidia-ml.so.1 and libcuda.so.1", WouldSee: noDriver,
		Remedy: orStartWithGPUs(node, installDriver.Remark(", then reboot"), fix.On("nvidia-smi -L")),
	}
	module := moduleVersion(node)
	switch {
	case ranks.ContainerOf(node) != "":
		f.Summary = "the container has GPUs and not the driver's libraries"
	case module != "":
		f.Summary = "the driver's kernel module is loaded, and its libraries are not installed"
		f.Got = "kernel module " + module
		f.Remedy = []fix.Command{
			fix.On("sudo apt-get install -y libnvidia-compute-%[1]s-server nvidia-utils-%[1]s-server", fix.Name(hostfile.Release(module, 1))).Remark("Ubuntu; what matters is that they are of the module's version"),
			fix.On("ldconfig -p | grep -e libcuda -e libnvidia-ml; nvidia-smi -L"),
		}
	}
	return f
}

var nouveauOff = fix.On(`printf "blacklist nouveau\noptions nouveau modeset=0\n" | sudo tee /etc/modprobe.d/nouveau-off.conf && sudo update-initramfs -u && sudo reboot   # once nobody's job runs there; on Red Hat: dracut --force`)

// moduleMissing is NVML's error 9. Another driver on the GPUs keeps the module off them.
func moduleMissing(node *facts.Node) checks.Finding {
	if isAMD(node) {
		return amdModuleMissing(node)
	}
	f := checks.Finding{Summary: "the kernel module of NVIDIA's driver is not loaded", Want: "the module nvidia", WouldSee: noDriver}
	switch holders := busDrivers(node); {
	case valueOf(node.GPU).Module != "":
		return moduleUnreachable(node)
	case ranks.ContainerOf(node) != "":
		f.Remedy = []fix.Command{fix.Note("on the machine that runs the container of {nodes}: modprobe nvidia && nvidia-smi"), fix.Note("a container uses the kernel module of its machine")}
	case slices.Contains(holders, "nouveau"):
		f.Got = "the GPUs are held by nouveau"
		f.Remedy = []fix.Command{installDriver.Remark("; where it is not installed, before anything else"), nouveauOff, fix.On("nvidia-smi -L   # after the reboot")}
	case slices.Contains(holders, "vfio-pci"):
		f.Got = "the GPUs are held by vfio-pci, for virtual machines"
		f.Remedy = []fix.Command{fix.On("cat /proc/cmdline; grep -rn -e vfio -e 10de /etc/modprobe.d   # what gives them away; take it out, then reboot")}
	default:
		f.Remedy = []fix.Command{
			fix.On("sudo modprobe nvidia"),
			fix.On("uname -r; dkms status; mokutil --sb-state   # where that fails: is the module built for this kernel, and signed if secure boot is on?"),
		}
	}
	return f
}

func busDrivers(node *facts.Node) []string {
	return text.Map(valueOf(node.GPU).OnBus, func(gpu facts.PCIGPU) string { return gpu.Driver })
}

// versionsDiffer is NVML's error 18, which CUDA has as 803.
func versionsDiffer(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary:  "the driver's kernel module and its libraries are of two versions",
		Got:      fmt.Sprintf("kernel module %s, library %s", compare.Shown(moduleVersion(node)), compare.Shown(libraryVersion(node))),
		Want:     "one version of both",
		WouldSee: unlikeDriver,
	}
	if container := ranks.ContainerOf(node); container != "" {
		f.Remedy = remedy.RestartContainer(container, fix.Code("it was started before its machine's driver was upgraded, or its image brings a driver of its own"))
	} else {
		f.Remedy = []fix.Command{rebootNode, reloadModule(node)}
	}
	return f
}

// reloadModule takes the old module out and the new one in, with all that was loaded
// on top of it and what CUDA needs. Services that a machine lacks stay away.
func reloadModule(node *facts.Node) fix.Command {
	services := fix.Code("nvidia-persistenced nvidia-fabricmanager nvidia-dcgm")
	out, in := []string{"nvidia_drm", "nvidia_modeset"}, []string{"nvidia", "nvidia_uvm"}
	for _, module := range []string{"nvidia_peermem", "nv_peer_mem", "gdrdrv"} {
		if slices.Contains(valueOf(node.GPU).Modules, module) {
			out, in = append(out, module), append(in, module)
		}
	}
	out = append(out, "nvidia_uvm", "nvidia")
	return fix.On("sudo systemctl stop %[1]s; sudo rmmod %s; sudo modprobe -a %s; sudo systemctl start %[1]s; nvidia-smi -L   # or, if nothing uses the GPUs: load the new module", services, fix.List[fix.Name](" ", out), fix.List[fix.Name](" ", in))
}

func moduleVersion(node *facts.Node) string {
	return cmp.Or(valueOf(node.GPU).Module, node.NVML.Driver)
}

// libraryVersion is that of NVML without the digits of its interface, else that of
// the libcuda next to it.
func libraryVersion(node *facts.Node) string {
	if parts := strings.Split(node.NVML.Library, "."); len(parts) > 3 {
		return strings.Join(parts[1:], ".")
	}
	return cmp.Or(node.NVML.Library, valueOf(firstLibcuda(node)).Version)
}
