package checks

import (
	"preflight/checks/fix"
	"preflight/facts"
)

// driverFailures says of each kind of failure what it is and what cures it.
var driverFailures = map[string]func(*facts.Node) Finding{
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
func failsUnexplained(node *facts.Node) Finding {
	f := Finding{Summary: "the driver fails with an unknown error", WouldSee: unknownCUDA}
	container := containerOf(node)
	if container == "" {
		f.Remedy = []fix.Command{kernelSays, rebootNode}
		return f
	}
	f.Summary = "the container has lost the right to its GPUs, as when systemd on its machine reloads"
	f.Remedy = restartContainer(container, fix.Code("it gets them back"))
	if container == "docker" {
		f.Remedy = append(f.Remedy, fix.Here("docker run --gpus all --device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm …   # with every device named, it keeps them"))
	}
	return f
}

// mayNotAsk is NVML's error 4.
func mayNotAsk(node *facts.Node) Finding {
	f := Finding{Summary: "this account may not use NVIDIA's driver", Got: shutDoorNames(node), Want: "device nodes that every rank may read and write", WouldSee: noGPUs}
	if container := containerOf(node); container != "" {
		f.Remedy = startWithGPUs(container)
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

func lostAGPU(*facts.Node) Finding {
	return Finding{
		Summary:  "a GPU has fallen off the bus, and the driver answers for none",
		Remedy:   []fix.Command{kernelSays, rebootNode.Remark("; where it stays away, power off and on"), withoutNode},
		WouldSee: unknownCUDA,
	}
}

func wantsReset(*facts.Node) Finding {
	return Finding{
		Summary:  "a GPU wants a reset before it is used again",
		Remedy:   []fix.Command{resetGPUs, withoutNode},
		WouldSee: unknownCUDA,
	}
}

// holdsNoGPU is NVML's error 6, or a driver that counts none.
func holdsNoGPU(node *facts.Node) Finding {
	f := Finding{Summary: "the driver is loaded and has no GPU", Want: "the GPUs of the machine", WouldSee: noGPUs}
	if container := containerOf(node); container != "" {
		f.Summary = "the container was given no GPU"
		f.Remedy = startWithGPUs(container)
		return f
	}
	f.Remedy = []fix.Command{fix.On("lspci -k -d 10de:   # are they there, and which driver holds them?"), kernelSays}
	return f
}

// userHalfMissing is where neither NVML nor nvidia-smi is there to be asked.
func userHalfMissing(node *facts.Node) Finding {
	f := Finding{Summary: "there are GPUs, and NVIDIA's driver is not installed", Want: "libnvidia-ml.so.1 and libcuda.so.1", WouldSee: noDriver}
	module := moduleVersion(node)
	switch container := containerOf(node); {
	case container != "":
		f.Summary = "the container has GPUs and not the driver's libraries"
		f.Remedy = startWithGPUs(container)
	case module != "":
		f.Summary = "the driver's kernel module is loaded, and its libraries are not installed"
		f.Got = "kernel module " + module
		f.Remedy = []fix.Command{
			fix.On("sudo apt-get install -y libnvidia-compute-%[1]s-server nvidia-utils-%[1]s-server", fix.Name(release(module, 1))).Remark("Ubuntu; what matters is that they are of the module's version"),
			fix.On("ldconfig -p | grep -e libcuda -e libnvidia-ml; nvidia-smi -L"),
		}
	default:
		f.Remedy = []fix.Command{installDriver.Remark(", then reboot"), fix.On("nvidia-smi -L")}
	}
	return f
}

func libraryCrashes(*facts.Node) Finding {
	return Finding{
		Summary:  "the driver's library crashes when it is asked",
		Want:     "libraries of one driver version",
		Remedy:   []fix.Command{fix.On("ldconfig -p | grep -e libcuda -e libnvidia-ml; cat /proc/driver/nvidia/version; nvidia-smi   # are there two versions?"), kernelSays},
		WouldSee: "the ranks there crash when they first ask for a GPU (exits with return code = -11)",
	}
}

func hangs(*facts.Node) Finding {
	return Finding{
		Summary:  "the driver does not answer",
		Want:     "an answer",
		Remedy:   []fix.Command{kernelSays.Remark("an Xid names the GPU"), fix.On(`ps -eo pid,stat,wchan:30,etime,cmd | grep -e nvidia -e " D"   # who hangs in it`), rebootNode, withoutNode},
		WouldSee: waitsForGPU,
	}
}

func isStuck(node *facts.Node) Finding {
	f := hangs(node)
	f.Summary = "the driver does not answer, and who asks it cannot be killed any more"
	f.Remedy = []fix.Command{f.Remedy[0], rebootNode.Remark(": nothing less frees a process that the kernel holds; where that hangs too: power off and on"), withoutNode}
	return f
}

func failsOtherwise(*facts.Node) Finding {
	return Finding{Summary: "the driver fails", Remedy: []fix.Command{fix.On("nvidia-smi"), kernelSays}}
}
