package launch

import (
	"slices"

	"preflight/facts"
)

// Accelerators is how many accelerators a rank of the launch finds on a machine,
// whoever made them. Device nodes are counted, as a container may be given a few
// of a machine's; but where there is no container, a GPU that the driver holds
// counts without its node too, because CUDA makes that on first use. Not known
// are those of a machine that was not looked at, and of WSL, which shows all of
// them as one device.
//
// Source: NVIDIA/nvidia-modprobe 550, modprobe-utils/nvidia-modprobe-utils.c.
func Accelerators(machine *facts.Node) (count int, known bool) {
	gpu := machine.GPU
	if gpu == nil || slices.Contains(gpu.Others, "/dev/dxg") {
		return 0, false
	}
	count = len(gpu.Devices)
	if machine.Host != nil && machine.Host.Container == "" {
		count = max(count, len(gpu.Driver))
	}
	return count + len(gpu.Others), true
}
