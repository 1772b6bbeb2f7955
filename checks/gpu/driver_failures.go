package gpu

import (
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch"
)

// leadsNowhere is what the kernel says of a device node that is not there, or that is
// and has no module behind it.
var leadsNowhere = []string{"no such file or directory", "no such device or address", "no such device"}

// shutDoors are the device nodes that a rank cannot open although NVML answers.
// NCCL since 2.23 and CUDA itself need /dev/nvidia-uvm, which nobody else does. CUDA
// loads its module and makes the node on first use, where nvidia-modprobe is installed
// with its rights; a container has no such help. The node of a GPU that NVML does
// not show was not meant for us.
//
// Source: NVIDIA/nvidia-modprobe 550, modprobe-utils/nvidia-modprobe-utils.c.
func shutDoors(node *facts.Node) []checks.Finding {
	var missing, refused []string
	if slices.Contains(node.GPU.Others, launch.WindowsGPUs) {
		return nil // its libcuda goes through that door alone
	}
	for _, door := range node.GPU.Doors {
		switch {
		case door.Problem == "" || strangersDoor(node, door.Path):
		case slices.Contains(leadsNowhere, door.Problem):
			missing = append(missing, door.Path+": "+door.Problem)
		default:
			refused = append(refused, door.Path+": "+door.Problem)
		}
	}
	var findings []checks.Finding
	container := ranks.ContainerOf(node)
	if refused != nil {
		f := checks.Finding{Nodes: []string{node.Name}, Summary: "ranks may not open the driver's device nodes", Got: strings.Join(refused, ", "), WouldSee: unknownCUDA, Remedy: openDoors}
		if container != "" {
			f.Remedy = remedy.StartWithGPUs(container)
		}
		findings = append(findings, f)
	}
	if missing != nil && (container != "" || !node.GPU.Modprobe) {
		f := checks.Finding{Nodes: []string{node.Name}, Summary: "device nodes of the driver are missing, or their module is", Got: strings.Join(missing, ", "), WouldSee: unknownCUDA}
		f.Remedy = []fix.Command{fix.On("sudo modprobe nvidia_uvm"), fix.On("sudo nvidia-modprobe -u -c=0")}
		switch {
		case container != "":
			f.Remedy = remedy.StartWithGPUs(container)
		default:
			f.Verdict = checks.Warn
			f.Want = "made before the launch: CUDA makes them on first use only where nvidia-modprobe is setuid root"
		}
		findings = append(findings, f)
	}
	return findings
}

// strangersDoor is whether a device node is that of a GPU that NVML does not show.
func strangersDoor(node *facts.Node, path string) bool {
	if !slices.Contains(node.GPU.Devices, path) {
		return false
	}
	number := strings.TrimPrefix(path, "/dev/nvidia")
	for i := range node.NVML.Cards { // by index: a card is large, and large fleets have many
		if minor := node.NVML.Cards[i].Minor; minor == nil || number == strconv.Itoa(*minor) {
			return false
		}
	}
	return true
}

// shutDoorNames are the device nodes that cannot be opened, with the reasons.
func shutDoorNames(node *facts.Node) string {
	var names []string
	if node.GPU != nil {
		for _, door := range node.GPU.Doors {
			if door.Problem != "" {
				names = append(names, door.Path+": "+door.Problem)
			}
		}
	}
	return strings.Join(names, ", ")
}

// lacksLibcuda is a node whose NVML answers and that has no CUDA driver for the
// ranks, as a container with the capability utility alone.
func lacksLibcuda(node *facts.Node) []checks.Finding {
	if len(node.GPU.Libcuda) > 0 {
		return nil
	}
	f := checks.Finding{
		Nodes: []string{node.Name}, Summary: "the driver answers, and its libcuda.so.1 is not in the loader's path", Want: "libcuda.so.1", WouldSee: noDriver,
		Remedy: []fix.Command{fix.On(`ldconfig -p | grep libcuda; find /usr -name "libcuda.so.1"   # where it is, if it is: then name its directory in /etc/ld.so.conf.d and run ldconfig`)},
	}
	switch container, module := ranks.ContainerOf(node), moduleVersion(node); {
	case container != "":
		f.Remedy = remedy.StartWithGPUs(container)
	case module != "":
		f.Remedy = append(f.Remedy, fix.On("sudo apt-get install -y libnvidia-compute-%s-server", fix.Name(compare.Release(module, 1))).Remark("Ubuntu; where it is not: of the kernel module's version"))
	}
	return []checks.Finding{f}
}

// driverFailures says of each kind of failure what it is and what cures it.
var driverFailures = map[string]func(*facts.Node) checks.Finding{
	facts.FailureNoDriver:     moduleMissing,
	facts.FailureMismatch:     versionsDiffer,
	facts.FailureUnknown:      failsUnexplained,
	facts.FailureNoPermission: mayNotAsk,
	facts.FailureLost:         lostAGPU,
	facts.FailureReset:        wantsReset,
	facts.FailureNotFound:     holdsNoGPU,
	facts.FailureNoLibrary:    userHalfMissing,
	facts.FailureCrashed:      libraryCrashes,
	facts.FailureHung:         hangs,
	facts.FailureStuck:        isStuck,
}

var installDriver = fix.On("sudo ubuntu-drivers install --gpgpu   # Ubuntu; elsewhere the driver of NVIDIA's repository")

// kernelSays looks for what the driver wrote about it.
var kernelSays = fix.On("sudo dmesg -T | grep -E 'NVRM|Xid|nvidia' | tail -20")

// failsUnexplained is NVML's error 999. Containers get it when systemd on their
// machine reloads and writes their device cgroup anew (NVIDIA/nvidia-docker, issue
// 1730; NVIDIA/nvidia-container-toolkit, issue 1227).
func failsUnexplained(node *facts.Node) checks.Finding {
	f := checks.Finding{Summary: "the driver fails with an unknown error", WouldSee: unknownCUDA}
	container := ranks.ContainerOf(node)
	if container == "" {
		f.Remedy = []fix.Command{kernelSays, rebootNode}
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
	f := checks.Finding{Summary: "this account may not use NVIDIA's driver", Got: shutDoorNames(node), Want: "device nodes that every rank may read and write", WouldSee: noGPUs}
	if container := ranks.ContainerOf(node); container != "" {
		f.Remedy = remedy.StartWithGPUs(container)
		return f
	}
	f.Remedy = openDoors
	return f
}

// openDoors are for device nodes that their mode closes: the module sets it.
var openDoors = []fix.Command{
	fix.On("ls -l /dev/nvidia*; id; grep -rn NVreg_DeviceFile /etc/modprobe.d   # whom they are for"),
	fix.On("sudo chmod a+rw /dev/nvidia*   # until the next boot; NVreg_DeviceFileMode=0666 in /etc/modprobe.d, or the account in their group, lasts"),
}

func lostAGPU(*facts.Node) checks.Finding {
	return checks.Finding{
		Summary:  "a GPU has fallen off the bus, and the driver answers for none",
		Remedy:   []fix.Command{kernelSays, rebootNode.Remark("; where it stays away, power off and on"), withoutNode},
		WouldSee: unknownCUDA,
	}
}

func wantsReset(*facts.Node) checks.Finding {
	return checks.Finding{
		Summary:  "a GPU wants a reset before it is used again",
		Remedy:   []fix.Command{resetGPUs, withoutNode},
		WouldSee: unknownCUDA,
	}
}

// holdsNoGPU is NVML's error 6, or a driver that counts none.
func holdsNoGPU(node *facts.Node) checks.Finding {
	f := checks.Finding{Summary: "the driver is loaded and has no GPU", Want: "the GPUs of the machine", WouldSee: noGPUs}
	if container := ranks.ContainerOf(node); container != "" {
		f.Summary = "the container was given no GPU"
		f.Remedy = remedy.StartWithGPUs(container)
		return f
	}
	f.Remedy = []fix.Command{fix.On("lspci -k -d 10de:   # are they there, and which driver holds them?"), kernelSays}
	return f
}

// userHalfMissing is where neither NVML nor nvidia-smi is there to be asked.
func userHalfMissing(node *facts.Node) checks.Finding {
	f := checks.Finding{Summary: "there are GPUs, and NVIDIA's driver is not installed", Want: "libnvidia-ml.so.1 and libcuda.so.1", WouldSee: noDriver}
	module := moduleVersion(node)
	switch container := ranks.ContainerOf(node); {
	case container != "":
		f.Summary = "the container has GPUs and not the driver's libraries"
		f.Remedy = remedy.StartWithGPUs(container)
	case module != "":
		f.Summary = "the driver's kernel module is loaded, and its libraries are not installed"
		f.Got = "kernel module " + module
		f.Remedy = []fix.Command{
			fix.On("sudo apt-get install -y libnvidia-compute-%[1]s-server nvidia-utils-%[1]s-server", fix.Name(compare.Release(module, 1))).Remark("Ubuntu; what matters is that they are of the module's version"),
			fix.On("ldconfig -p | grep -e libcuda -e libnvidia-ml; nvidia-smi -L"),
		}
	default:
		f.Remedy = []fix.Command{installDriver.Remark(", then reboot"), fix.On("nvidia-smi -L")}
	}
	return f
}

func libraryCrashes(*facts.Node) checks.Finding {
	return checks.Finding{
		Summary:  "the driver's library crashes when it is asked",
		Want:     "libraries of one driver version",
		Remedy:   []fix.Command{fix.On("ldconfig -p | grep -e libcuda -e libnvidia-ml; cat /proc/driver/nvidia/version; nvidia-smi   # are there two versions?"), kernelSays},
		WouldSee: "the ranks there crash when they first ask for a GPU (exits with return code = -11)",
	}
}

func hangs(*facts.Node) checks.Finding {
	return checks.Finding{
		Summary:  "the driver does not answer",
		Want:     "an answer",
		Remedy:   []fix.Command{kernelSays.Remark("an Xid names the GPU"), fix.On(`ps -eo pid,stat,wchan:30,etime,cmd | grep -e nvidia -e " D"   # who hangs in it`), rebootNode, withoutNode},
		WouldSee: waitsForGPU,
	}
}

func isStuck(node *facts.Node) checks.Finding {
	f := hangs(node)
	f.Summary = "the driver does not answer, and who asks it cannot be killed any more"
	f.Remedy = []fix.Command{f.Remedy[0], rebootNode.Remark(": nothing less frees a process that the kernel holds; where that hangs too: power off and on"), withoutNode}
	return f
}

func failsOtherwise(*facts.Node) checks.Finding {
	return checks.Finding{Summary: "the driver fails", Remedy: []fix.Command{fix.On("nvidia-smi"), kernelSays}}
}
