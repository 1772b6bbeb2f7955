package gpu

import (
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

var DriverLoads = checks.Check{
	ID:       "gpu-driver-loads",
	Title:    "the NVIDIA driver answers on every node that shows its GPUs, and ranks may use it",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML},
	Doc: "A driver is a kernel module, libraries that must be of the same version, and device nodes that must be there and open. Each of them fails in its own way: no " +
		"module after an upgrade of the kernel, a module of before the upgrade of the libraries, a container that lost the right to its GPUs, a GPU that no longer answers and takes " +
		"every program along that asks for it. torch then finds no GPU, and DeepSpeed 0.14.1 and later takes the CPU on that node without an error: the others wait for it. The driver is asked " +
		"by NVML in a process of its own, or by nvidia-smi where NVML cannot be loaded. A node whose driver fails is left out by all other gpu checks.",
	WouldSee: noGPUs,
	Run:      judgeDrivers,
}

// What torch says of a driver that does not work (c10/cuda/CUDAFunctions.cpp and
// torch/csrc/cuda/Module.cpp, 2.5).
const (
	noGPUs       = "RuntimeError: No CUDA GPUs are available"
	noDriver     = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver"
	unknownCUDA  = "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero"
	unlikeDriver = "Unexpected error from cudaGetDeviceCount() … Error 803: system has unsupported display driver / cuda driver combination"
	takesCPU     = "nothing but the time it takes: DeepSpeed takes the CPU"
	waitsForGPU  = "nothing: the ranks there hang when they first ask for a GPU, and the others in init_process_group until it times out"
)

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
			findings = append(findings, shutDoors(node)...)
			findings = append(findings, lacksLibcuda(node)...)
			findings = append(findings, unheldGPUs(view, node, slotsOf(node))...)
		}
	}
	return findings
}

// driverFailure puts a failure into words, by its kind.
func driverFailure(node *facts.Node, failure facts.NVMLFailure) checks.Finding {
	describe, known := driverFailures[failure.Kind]
	if !known {
		describe = failsOtherwise
	}
	f := describe(node)
	f.Nodes = []string{node.Name}
	if said := driverAnswer(failure); f.Got == "" {
		f.Got = said
	} else {
		f.Got += "; " + said
	}
	return f
}

// driverAnswer is the driver's answer as far as there was one.
func driverAnswer(failure facts.NVMLFailure) string {
	said := compare.Shown(failure.Text)
	if failure.Call != "" {
		said = failure.Call + ": " + said
	}
	if failure.Code != 0 {
		said += fmt.Sprintf(" (%d)", failure.Code)
	}
	return said
}

// moduleUnheard is where NVML finds no driver although its kernel module is loaded: by
// its device nodes, if they are missing or refused.
func moduleUnheard(node *facts.Node) checks.Finding {
	f := checks.Finding{
		Summary: "NVIDIA's kernel module is loaded, and its device nodes are missing", Got: "module " + node.GPU.Module,
		Want: "/dev/nvidiactl and a /dev/nvidiaN for each GPU", WouldSee: noDriver,
		Remedy: []fix.Command{fix.On("sudo nvidia-modprobe -u -c=0"), fix.On("nvidia-smi -L")},
	}
	control := slices.IndexFunc(node.GPU.Doors, func(door facts.DeviceNode) bool { return door.Path == "/dev/nvidiactl" })
	container := ranks.ContainerOf(node)
	switch {
	case control >= 0 && node.GPU.Doors[control].Problem == "" && len(node.GPU.Devices) > 0:
		f.Summary = "NVIDIA's kernel module is loaded and has its device nodes, and its library finds no driver"
		f.Got += ", " + strings.Join(append([]string{"/dev/nvidiactl"}, node.GPU.Devices...), ", ")
		f.Want = "device nodes with the numbers of the module, and a module that accepted its GPUs"
		f.Remedy = []fix.Command{fix.On("ls -l /dev/nvidia*; grep -i nvidia /proc/devices   # do the major numbers agree?"), kernelSays, reloadModule(node)}
		if container != "" {
			f.Remedy = append(f.Remedy[:2:2], remedy.RestartContainer(container, fix.Code("it gets the device nodes of now"))...)
		}
	case control >= 0 && !slices.Contains(leadsNowhere, node.GPU.Doors[control].Problem):
		f.Summary = "NVIDIA's kernel module is loaded, and this session may not open its device nodes"
		f.Got, f.Want = shutDoorNames(node), "device nodes that every rank may read and write"
		if f.Remedy = openDoors; container != "" {
			f.Remedy = remedy.StartWithGPUs(container)
		}
	case container != "":
		f.Remedy = remedy.StartWithGPUs(container)
	}
	return f
}
