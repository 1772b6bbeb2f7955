package launch

import (
	"cmp"
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

// exporting is the accelerator whose variables are exported: the launching
// machine's, where a login node without one has DeepSpeed take the CPU for it. One
// that was not looked at is taken to have some.
//
// Source: deepspeed/launcher/runner.py, main, get_accelerator().export_envs(), and
// accelerator/real_accelerator.py, 0.14.1 to 0.19.8.
func (r runner) exporting(head *facts.Node) string {
	if r.Accelerator == "" && head != nil && !r.before(cpuFallback) {
		if count, known := Accelerators(head); known && count == 0 {
			return "cpu"
		}
	}
	return cmp.Or(r.Accelerator, "cuda")
}
