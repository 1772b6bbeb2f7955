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
		return inMakersWords(view, noGPUs, judgeDrivers(view))
	},
}

// Messages of torch about a driver that does not work (c10/cuda/CUDAFunctions.cpp and
// torch/csrc/cuda/Module.cpp, 2.5).
const (
	noGPUs       = "RuntimeError: No CUDA GPUs are available"
	noDriver     = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver"
	unknownCUDA  = "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero"
	busyCUDA     = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
	unlikeDriver = "Unexpected error from cudaGetDeviceCount() … Error 803: system has unsupported display driver / cuda driver combination"
	takesCPU     = "Setting accelerator to CPU. If you have GPU or other accelerator, we were unable to detect it. (a warning of DeepSpeed, which then trains slowly on the CPU)"
	waitsForGPU  = "no message: ranks on this node hang at their first GPU call, and all others in init_process_group until it times out"
)

// ofDriver lists the facts that differ from other nodes because the driver does not answer.
var ofDriver = []string{"nvml", "gpu.devices", "gpu.doors", "gpu.fabric_manager", "gpu.libcuda", "gpu.module", "gpu.modules", "gpu.open_module"}

// meantCPU is the note for a launch whose accelerator is not known.
var meantCPU = fix.Note("if the launch is meant to use the CPU, run preflight with --accelerator cpu")

func judgeDrivers(view checks.View) []checks.Finding {
	nodes, reason := askedGPUs(view)
	if reason != "" {
		return checks.Skipped(reason)
	}
	slotsOf := view.Launch.SlotsUsed()
	var findings []checks.Finding
	// In a cluster without compute GPUs, the display's GPU is bound to a driver of the operating
	// system.
	displays := !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return !slices.Contains(busDrivers(n), "nouveau") })
	for _, node := range nodes {
		switch failure := node.NVML.Failure; {
		case failure != nil:
			f := driverFailure(node, *failure)
			f.Covers = ofDriver
			if view.Launch.Accelerator == "cpu" { // preflight assumed "cpu", because the launch names no accelerator
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
	f := checks.Finding{Summary: "the driver fails", Remedy: []fix.Command{fix.On("nvidia-smi").As(fix.Look), driverLog}}
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

// moduleUnreachable returns the finding for a node where the kernel module is loaded but NVML finds
// no driver. A possible reason is that device nodes are missing or closed.
func moduleUnreachable(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary: "NVIDIA's kernel module is loaded, but its device nodes are missing", Got: "module " + node.GPU.Module,
		Want: "/dev/nvidiactl and a /dev/nvidiaN for each GPU", WouldSee: noDriver,
		Remedy: orStartWithGPUs(node, fix.On("sudo nvidia-modprobe -u -c=0"), fix.On("nvidia-smi -L").As(fix.Look)),
	}
	control := slices.IndexFunc(node.GPU.Doors, func(door facts.DeviceNode) bool { return door.Path == "/dev/nvidiactl" })
	switch {
	case control >= 0 && node.GPU.Doors[control].Problem == "" && len(node.GPU.Devices) > 0:
		f.Summary = "NVIDIA's kernel module is loaded, but its library finds no driver"
		f.Got += ", " + strings.Join(append([]string{"/dev/nvidiactl"}, node.GPU.Devices...), ", ")
		f.Want = "device nodes with the numbers of the module, and a module that accepted its GPUs"
		f.Remedy = []fix.Command{fix.On("ls -l /dev/nvidia*; grep -i nvidia /proc/devices   # shows whether the major numbers agree").As(fix.Look), driverLog, reloadModule(node)}
		if container := ranks.ContainerOf(node); container != "" {
			f.Remedy = append(f.Remedy[:2:2], remedy.RestartContainer(container, fix.Code("it then gets the current device nodes"))...)
		}
	case control >= 0 && !slices.Contains(notThere, node.GPU.Doors[control].Problem):
		f.Summary = "NVIDIA's kernel module is loaded, but this session cannot open its device nodes"
		f.Got, f.Want = closedDeviceNames(node), "device nodes that every rank may read and write"
		f.Remedy = orStartWithGPUs(node, openDevices...)
	}
	return f
}

// notThere lists the kernel's errors for a device node that does not exist, or whose module is not
// loaded.
var notThere = []string{"no such file or directory", "no such device or address", "no such device"}

// closedDevices returns the findings for device nodes that a rank cannot open although NVML
// answers. Only CUDA itself and NCCL 2.23 and later need /dev/nvidia-uvm. On first use, CUDA loads
// the module for that device node and creates it, if nvidia-modprobe is installed setuid root. In a
// container that does not work. Device nodes of GPUs that NVML does not show belong to other jobs.
//
// Source: NVIDIA/nvidia-modprobe 550, modprobe-utils/nvidia-modprobe-utils.c.
func closedDevices(node *facts.Node) (findings []checks.Finding) {
	var missing, refused []string
	if slices.Contains(node.GPU.Others, launch.WindowsGPUs) {
		return nil // the libcuda of WSL uses only WSL's own GPU device
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
			Summary: "ranks cannot open the driver's device nodes", Got: strings.Join(refused, ", "), WouldSee: unknownCUDA,
			Remedy: orStartWithGPUs(node, openDevices...),
		})
	}
	inContainer := ranks.ContainerOf(node) != ""
	if missing != nil && (inContainer || !node.GPU.Modprobe) {
		f := checks.Finding{
			Summary: "the driver's device nodes, or the kernel module that serves them, are missing", Got: strings.Join(missing, ", "), WouldSee: unknownCUDA,
			Remedy: orStartWithGPUs(node, fix.On("sudo modprobe nvidia_uvm"), fix.On("sudo nvidia-modprobe -u -c=0").As(fix.Then)),
		}
		if !inContainer {
			f.Verdict = checks.Warn
			f.Want = "device nodes before the launch: CUDA creates them at first use only if nvidia-modprobe is setuid root"
		}
		findings = append(findings, f)
	}
	return findings
}

// isOthersDevice reports whether a device node belongs to a GPU that NVML does not show.
func isOthersDevice(node *facts.Node, path string) bool {
	if !slices.Contains(node.GPU.Devices, path) {
		return false
	}
	number := path[strings.LastIndexFunc(path, unicode.IsLetter)+1:] // the number at the end of /dev/nvidia3 or /dev/dri/renderD131
	for i := range node.NVML.Cards {                                 // by index, to avoid copying large cards: large fleets have many
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

// lacksLibcuda returns the finding for a node where NVML answers but ranks find no libcuda. That
// happens in a container that has only the capability utility.
func lacksLibcuda(node *facts.Node) []checks.Finding {
	if len(node.GPU.Libcuda) > 0 || isAMD(node) {
		return nil
	}
	f := checks.Finding{
		Summary: "the driver answers, but libcuda.so.1 is not in the loader's path", Want: "libcuda.so.1 in the loader's path", WouldSee: noDriver,
		Remedy: orStartWithGPUs(node, fix.On(`ldconfig -p | grep libcuda; find /usr -name "libcuda.so.1"   # if it exists: add its directory to /etc/ld.so.conf.d and run ldconfig`).As(fix.Look)),
	}
	if module := moduleVersion(node); module != "" && ranks.ContainerOf(node) == "" {
		f.Remedy = append(f.Remedy, fix.On("sudo apt-get install -y libnvidia-compute-%s-server", fix.Name(hostfile.Release(module, 1))).Remark("Ubuntu; elsewhere install libcuda in the kernel module's version"))
	}
	return []checks.Finding{f}
}

// driverFailures maps each kind of driver failure to the function that returns its finding.
var driverFailures = map[string]func(*facts.Node) checks.Finding{
	facts.FailureNoDriver:     moduleMissing,
	facts.FailureMismatch:     versionsDiffer,
	facts.FailureUnknown:      failsUnexplained,
	facts.FailureNoPermission: mayNotAsk,
	facts.FailureNotFound:     holdsNoGPU,
	facts.FailureNoLibrary:    librariesMissing,
	facts.FailureLost: always(checks.Finding{
		Summary:  "a GPU has fallen off the bus, and the driver answers for no GPU",
		Remedy:   []fix.Command{driverLog, rebootNode.Remark(stayedAway), withoutNode},
		WouldSee: unknownCUDA,
	}),
	facts.FailureReset: always(checks.Finding{
		Summary:  "a GPU needs a reset before it can be used again",
		Remedy:   []fix.Command{resetGPUs, withoutNode},
		WouldSee: unknownCUDA,
	}),
	facts.FailureCrashed: always(checks.Finding{
		Summary:  "the driver's library crashes when a program calls it",
		Want:     "libraries of one driver version",
		Remedy:   []fix.Command{fix.On("ldconfig -p | grep -e libcuda -e libnvidia-ml; cat /proc/driver/nvidia/version; nvidia-smi   # shows whether there are two versions").As(fix.Look), driverLog, fix.Note("remove the libraries of the other driver version from {nodes}")},
		WouldSee: "the ranks there crash when they first ask for a GPU (exits with return code = -11)",
	}),
	facts.FailureHung: always(checks.Finding{
		Summary:  "the driver does not answer",
		Want:     "an answer",
		Remedy:   []fix.Command{driverLog.Remark("an Xid names the GPU"), fix.On(`ps -eo pid,stat,wchan:30,etime,cmd | grep -e nvidia -e " D"   # shows the processes that hang in the driver`).As(fix.Look), rebootNode, withoutNode},
		WouldSee: waitsForGPU,
	}),
	facts.FailureStuck: always(checks.Finding{
		Summary:  "the driver does not answer, and processes that call it cannot be killed",
		Want:     "an answer",
		Remedy:   []fix.Command{driverLog.Remark("an Xid names the GPU"), rebootNode.Remark("; only that frees a process that hangs in the kernel; if the reboot hangs too, switch the machine off and on"), withoutNode},
		WouldSee: waitsForGPU,
	}),
}

// always returns a function that returns the same finding for every node.
func always(f checks.Finding) func(*facts.Node) checks.Finding {
	return func(*facts.Node) checks.Finding { return f }
}

var installDriver = fix.On("sudo ubuntu-drivers install --gpgpu   # Ubuntu; elsewhere install the driver from NVIDIA's repository")

var xidLog = fix.On("sudo dmesg -T | grep -i xid").As(fix.Look)

var driverLog = fix.On("sudo dmesg -T | grep -E 'NVRM|Xid|nvidia' | tail -20").As(fix.Look)

// failsUnexplained returns the finding for NVML's error 999. Containers get this error when systemd
// on their machine reloads and rewrites their device cgroup (NVIDIA/nvidia-docker, issue 1730;
// NVIDIA/nvidia-container-toolkit, issue 1227).
func failsUnexplained(node *facts.Node) checks.Finding {
	f := checks.Finding{Summary: "the driver fails with an unknown error", WouldSee: unknownCUDA}
	container := ranks.ContainerOf(node)
	if container == "" {
		f.Remedy = []fix.Command{driverLog, rebootNode}
		return f
	}
	f.Summary = "the container lost access to its GPUs, as after a systemd reload on the machine"
	f.Remedy = remedy.RestartContainer(container, fix.Code("it then regains access to the GPUs"))
	if container == "docker" {
		f.Remedy = append(f.Remedy, fix.Note("the container keeps its access if docker run names every device: --gpus all --device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm"))
	}
	return f
}

// mayNotAsk returns the finding for NVML's error 4, no permission.
func mayNotAsk(node *facts.Node) checks.Finding {
	return checks.Finding{
		Summary: "this account cannot use NVIDIA's driver", Got: closedDeviceNames(node), Want: "device nodes that every rank may read and write", WouldSee: noGPUs,
		Remedy: orStartWithGPUs(node, openDevices...),
	}
}

// openDevices lists the commands that give access to device nodes whose mode denies it. The module
// sets the mode.
var openDevices = []fix.Command{
	fix.On("ls -l /dev/nvidia*; id; grep -rn NVreg_DeviceFile /etc/modprobe.d   # shows who may open them").As(fix.Look),
	fix.On("sudo chmod a+rw /dev/nvidia*   # until the next boot; for good: NVreg_DeviceFileMode=0666 in /etc/modprobe.d, or add the account to their group"),
}

// holdsNoGPU returns the finding for NVML's error 6, and for a driver that reports no GPU.
func holdsNoGPU(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary: "the driver is loaded but finds no GPU", Want: "the GPUs of the machine", WouldSee: noGPUs,
		Remedy: orStartWithGPUs(node, fix.On("lspci -k -d 10de:   # shows whether there are GPUs, and which driver holds them").As(fix.Look), driverLog),
	}
	if ranks.ContainerOf(node) != "" {
		f.Summary = "the container was given no GPU"
	}
	return f
}

// librariesMissing returns the finding for a node on which NVML cannot be loaded.
func librariesMissing(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary: "the node has GPUs, but NVIDIA's driver is not installed", Want: "libnvidia-ml.so.1 and libcuda.so.1", WouldSee: noDriver,
		Remedy: orStartWithGPUs(node, installDriver.Remark(", then reboot"), fix.On("nvidia-smi -L").As(fix.Look)),
	}
	module := moduleVersion(node)
	switch {
	case ranks.ContainerOf(node) != "":
		f.Summary = "the container has GPUs, but not the driver's libraries"
	case module != "":
		f.Summary = "the driver's kernel module is loaded, but its libraries are not installed"
		f.Got = "kernel module " + module
		f.Remedy = []fix.Command{
			fix.On("sudo apt-get install -y libnvidia-compute-%[1]s-server nvidia-utils-%[1]s-server", fix.Name(hostfile.Release(module, 1))).Remark("Ubuntu; the libraries must have the module's version"),
			fix.On("ldconfig -p | grep -e libcuda -e libnvidia-ml; nvidia-smi -L").As(fix.Look),
		}
	}
	return f
}

var nouveauOff = fix.On(`printf "blacklist nouveau\noptions nouveau modeset=0\n" | sudo tee /etc/modprobe.d/nouveau-off.conf && sudo update-initramfs -u   # on Red Hat: dracut --force`)

// moduleMissing returns the finding for NVML's error 9. The reason may be that the GPUs are bound
// to another driver.
func moduleMissing(node *facts.Node) checks.Finding {
	if isAMD(node) {
		return amdModuleMissing(node)
	}
	f := checks.Finding{Summary: "the kernel module of NVIDIA's driver is not loaded", Want: "the module nvidia", WouldSee: noDriver}
	switch holders := busDrivers(node); {
	case valueOf(node.GPU).Module != "":
		return moduleUnreachable(node)
	case ranks.ContainerOf(node) != "":
		f.Remedy = []fix.Command{fix.Note("run modprobe nvidia && nvidia-smi on the machine that runs the container of {nodes}: a container uses the kernel module of its machine")}
	case slices.Contains(holders, "nouveau"):
		f.Got = "nouveau holds the GPUs"
		f.Remedy = []fix.Command{installDriver, nouveauOff.As(fix.Then), rebootNode.Remark("; needed after these steps"), fix.On("nvidia-smi -L   # after the reboot").As(fix.Look)}
	case slices.Contains(holders, "vfio-pci"):
		f.Got = "vfio-pci holds the GPUs, for virtual machines"
		f.Remedy = []fix.Command{
			fix.On("cat /proc/cmdline; grep -rn -e vfio -e 10de /etc/modprobe.d").As(fix.Look),
			fix.Note("remove the setting that gives the GPUs of {nodes} to vfio-pci, then reboot"),
		}
	default:
		f.Remedy = []fix.Command{
			fix.On("sudo modprobe nvidia"),
			fix.On("uname -r; dkms status; mokutil --sb-state   # if that fails: is the module built for this kernel, and signed if secure boot is on?").As(fix.Look),
		}
	}
	return f
}

func busDrivers(node *facts.Node) []string {
	return text.Map(valueOf(node.GPU).OnBus, func(gpu facts.PCIGPU) string { return gpu.Driver })
}

// versionsDiffer returns the finding for NVML's error 18, which is CUDA's error 803.
func versionsDiffer(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary:  fmt.Sprintf("driver: kernel module %s, libraries %s", compare.Shown(moduleVersion(node)), compare.Shown(libraryVersion(node))),
		Got:      fmt.Sprintf("kernel module %s, library %s", compare.Shown(moduleVersion(node)), compare.Shown(libraryVersion(node))),
		Want:     "kernel module and libraries of the same version",
		WouldSee: unlikeDriver,
	}
	if container := ranks.ContainerOf(node); container != "" {
		f.Remedy = remedy.RestartContainer(container, fix.Code("it was started before a driver upgrade of its machine, or its image contains another driver"))
	} else {
		f.Remedy = []fix.Command{reloadModule(node), rebootNode}
	}
	return f
}

// reloadModule returns the command that replaces the loaded module with the installed one. It also
// reloads the modules that depend on it or that CUDA needs. It does not start services that the
// machine lacks.
func reloadModule(node *facts.Node) fix.Command {
	services := fix.Code("nvidia-persistenced nvidia-fabricmanager nvidia-dcgm")
	out, in := []string{"nvidia_drm", "nvidia_modeset"}, []string{"nvidia", "nvidia_uvm"}
	for _, module := range []string{"nvidia_peermem", "nv_peer_mem", "gdrdrv"} {
		if slices.Contains(valueOf(node.GPU).Modules, module) {
			out, in = append(out, module), append(in, module)
		}
	}
	out = append(out, "nvidia_uvm", "nvidia")
	return fix.On("sudo systemctl stop %[1]s; sudo rmmod %s; sudo modprobe -a %s; sudo systemctl start %[1]s; nvidia-smi -L   # loads the new module; works only when no process uses the GPUs", services, fix.List[fix.Name](" ", out), fix.List[fix.Name](" ", in))
}

func moduleVersion(node *facts.Node) string {
	return cmp.Or(valueOf(node.GPU).Module, node.NVML.Driver)
}

// libraryVersion returns the version of NVML without the number of its interface. If NVML reports
// no version, it returns the version of the libcuda next to NVML.
func libraryVersion(node *facts.Node) string {
	if parts := strings.Split(node.NVML.Library, "."); len(parts) > 3 {
		return strings.Join(parts[1:], ".")
	}
	return cmp.Or(node.NVML.Library, valueOf(firstLibcuda(node)).Version)
}
