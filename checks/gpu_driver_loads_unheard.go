package checks

import (
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// moduleUnheard is where NVML finds no driver although its kernel module is loaded: by
// its device nodes, if they are missing or refused.
func moduleUnheard(node *facts.Node) Finding {
	f := Finding{
		Summary: "NVIDIA's kernel module is loaded, and its device nodes are missing", Got: "module " + node.GPU.Module,
		Want: "/dev/nvidiactl and a /dev/nvidiaN for each GPU", WouldSee: noDriver,
		Remedy: []fix.Command{fix.On("sudo nvidia-modprobe -u -c=0"), fix.On("nvidia-smi -L")},
	}
	control := slices.IndexFunc(node.GPU.Doors, func(door facts.DeviceNode) bool { return door.Path == "/dev/nvidiactl" })
	container := containerOf(node)
	switch {
	case control >= 0 && node.GPU.Doors[control].Problem == "" && len(node.GPU.Devices) > 0:
		f.Summary = "NVIDIA's kernel module is loaded and has its device nodes, and its library finds no driver"
		f.Got += ", " + strings.Join(append([]string{"/dev/nvidiactl"}, node.GPU.Devices...), ", ")
		f.Want = "device nodes with the numbers of the module, and a module that accepted its GPUs"
		f.Remedy = []fix.Command{fix.On("ls -l /dev/nvidia*; grep -i nvidia /proc/devices   # do the major numbers agree?"), kernelSays, reloadModule(node)}
		if container != "" {
			f.Remedy = append(f.Remedy[:2:2], restartContainer(container, fix.Code("it gets the device nodes of now"))...)
		}
	case control >= 0 && !slices.Contains(leadsNowhere, node.GPU.Doors[control].Problem):
		f.Summary = "NVIDIA's kernel module is loaded, and this session may not open its device nodes"
		f.Got, f.Want = shutDoorNames(node), "device nodes that every rank may read and write"
		if f.Remedy = openDoors; container != "" {
			f.Remedy = startWithGPUs(container)
		}
	case container != "":
		f.Remedy = startWithGPUs(container)
	}
	return f
}
