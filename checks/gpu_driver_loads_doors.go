package checks

import (
	"slices"
	"strconv"
	"strings"

	"preflight/checks/fix"
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
func shutDoors(node *facts.Node) []Finding {
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
	var findings []Finding
	container := containerOf(node)
	if refused != nil {
		f := Finding{Nodes: []string{node.Name}, Summary: "ranks may not open the driver's device nodes", Got: strings.Join(refused, ", "), WouldSee: unknownCUDA, Remedy: openDoors}
		if container != "" {
			f.Remedy = startWithGPUs(container)
		}
		findings = append(findings, f)
	}
	if missing != nil && (container != "" || !node.GPU.Modprobe) {
		f := Finding{Nodes: []string{node.Name}, Summary: "device nodes of the driver are missing, or their module is", Got: strings.Join(missing, ", "), WouldSee: unknownCUDA}
		f.Remedy = []fix.Command{fix.On("sudo modprobe nvidia_uvm"), fix.On("sudo nvidia-modprobe -u -c=0")}
		switch {
		case container != "":
			f.Remedy = startWithGPUs(container)
		default:
			f.Verdict = Warn
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
func lacksLibcuda(node *facts.Node) []Finding {
	if len(node.GPU.Libcuda) > 0 {
		return nil
	}
	f := Finding{
		Nodes: []string{node.Name}, Summary: "the driver answers, and its libcuda.so.1 is not in the loader's path", Want: "libcuda.so.1", WouldSee: noDriver,
		Remedy: []fix.Command{fix.On(`ldconfig -p | grep libcuda; find /usr -name "libcuda.so.1"   # where it is, if it is: then name its directory in /etc/ld.so.conf.d and run ldconfig`)},
	}
	switch container, module := containerOf(node), moduleVersion(node); {
	case container != "":
		f.Remedy = startWithGPUs(container)
	case module != "":
		f.Remedy = append(f.Remedy, fix.On("sudo apt-get install -y libnvidia-compute-%s-server", fix.Name(release(module, 1))).Remark("Ubuntu; where it is not: of the kernel module's version"))
	}
	return []Finding{f}
}
