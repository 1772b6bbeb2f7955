package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
)

// nouveauOff keeps the free driver off the GPUs.
var nouveauOff = fix.On(`printf "blacklist nouveau\noptions nouveau modeset=0\n" | sudo tee /etc/modprobe.d/nouveau-off.conf && sudo update-initramfs -u && sudo reboot   # once nobody's job runs there; on Red Hat: dracut --force`)

// moduleMissing is NVML's error 9. Another driver on the GPUs keeps the module off them.
func moduleMissing(node *facts.Node) checks.Finding {
	f := checks.Finding{Summary: "the kernel module of NVIDIA's driver is not loaded", Want: "the module nvidia", WouldSee: noDriver}
	switch holders := busDrivers(node); {
	case node.GPU != nil && node.GPU.Module != "":
		return moduleUnheard(node)
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

// busDrivers are the kernel drivers bound to the GPUs.
func busDrivers(node *facts.Node) (drivers []string) {
	if node.GPU != nil {
		for _, gpu := range node.GPU.OnBus {
			drivers = append(drivers, gpu.Driver)
		}
	}
	return drivers
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
		return f
	}
	f.Remedy = []fix.Command{rebootNode, reloadModule(node)}
	return f
}

// reloadModule takes the old module out and the new one in, with all that was loaded
// on top of it and what CUDA needs. Services that a machine lacks stay away.
func reloadModule(node *facts.Node) fix.Command {
	services := fix.Code("nvidia-persistenced nvidia-fabricmanager nvidia-dcgm")
	out, in := []string{"nvidia_drm", "nvidia_modeset"}, []string{"nvidia", "nvidia_uvm"}
	for _, module := range []string{"nvidia_peermem", "nv_peer_mem", "gdrdrv"} {
		if node.GPU != nil && slices.Contains(node.GPU.Modules, module) {
			out, in = append(out, module), append(in, module)
		}
	}
	out = append(out, "nvidia_uvm", "nvidia")
	return fix.On("sudo systemctl stop %[1]s; sudo rmmod %s; sudo modprobe -a %s; sudo systemctl start %[1]s; nvidia-smi -L   # or, if nothing uses the GPUs: load the new module", services, fix.List[fix.Name](" ", out), fix.List[fix.Name](" ", in))
}

func moduleVersion(node *facts.Node) string {
	if node.GPU != nil && node.GPU.Module != "" {
		return node.GPU.Module
	}
	return node.NVML.Driver
}

// libraryVersion is that of NVML without the digits of its interface, else that of
// the libcuda next to it.
func libraryVersion(node *facts.Node) string {
	if parts := strings.Split(node.NVML.Library, "."); len(parts) > 3 {
		return strings.Join(parts[1:], ".")
	}
	libcuda := ""
	if node.GPU != nil && len(node.GPU.Libcuda) > 0 {
		libcuda = node.GPU.Libcuda[0].Version
	}
	return cmp.Or(node.NVML.Library, libcuda)
}
