package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

var gpuDriverRunsCUDA = Check{
	ID:       "gpu-driver-runs-cuda",
	Title:    "the driver and the GPUs of every node run the CUDA that torch was built with",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionPython},
	Doc: "A driver runs every CUDA before its own. A newer one of its own major version works as well, from CUDA 11 on and from one driver per major version (580.65.06 for CUDA 13, 525.60.13 " +
		"for 12, 450.80.02 for 11), so that torch for 12.6 on a driver of 12.2 is nothing to warn of. A newer major version takes a newer driver or, on data centre GPUs, a cuda-compat package. " +
		"Looked at besides: the libcuda.so.1 that the loader takes first, which must not be a stub, and of another version than the kernel module only where forward compatibility allows " +
		"it; and whether the wheels of pytorch.org have code for the GPUs at all. The build of another distributor is not judged by its GPUs, nor is torch for ROCm.",
	WouldSee: "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver",
	Run:      judgeCUDA,
}

func judgeCUDA(view View) []Finding {
	nodes, findings := judgedGPUs(view)
	if len(nodes) == 0 {
		return findings
	}
	nodes = slices.DeleteFunc(nodes, func(n *facts.Node) bool { return n.Python.Torch == nil })
	if len(nodes) == 0 {
		return append(findings, nowhere(view, "torch")...)
	}
	alike := len(groupBy(nodes, func(n *facts.Node) string { return torchKind(n.Python.Torch) })) == 1
	cardsOf := launchCards(view)
	told := false
	for _, node := range nodes {
		torch := node.Python.Torch
		switch {
		case torch.HIP != "":
		case torch.CUDA == "" && alike: // among others it is torch-same's finding
			told = true
			findings = append(findings, cpuBuild(view, node, cardsOf(node)))
		case torch.CUDA != "":
			told = true
			findings = append(findings, runsTorch(view, node, cardsOf(node))...)
		}
	}
	if !told {
		return append(findings, skip("no torch here is built for CUDA")...)
	}
	return findings
}

// cpuBuild is of a torch that cannot use the GPUs that are there. Where nobody said
// that they are to be used, DeepSpeed goes on without, and hardly as it was meant.
func cpuBuild(view View, node *facts.Node, cards []*facts.Card) Finding {
	f := Finding{
		Nodes: []string{node.Name}, Summary: "torch is built for the CPU alone, and there are GPUs", Got: "torch " + node.Python.Torch.Version, Want: "a build for CUDA",
		WouldSee: "AssertionError: Torch not compiled with CUDA enabled", Remedy: otherTorch(view, node, cards),
	}
	if f.Remedy == nil { // the driver is older than every build
		f.Remedy = append(newerDriver(node, "12"), fix.Note("then have preflight name the build of torch"))
	}
	if view.Launch.AcceleratorOpen {
		f.Remedy = append(f.Remedy, meantCPU)
		if !view.Launch.Torchrun() {
			f.WouldSee = takesCPU
		}
	}
	return f
}

// runsTorch judges libcuda first, for nothing else is as it seems with a wrong one.
func runsTorch(view View, node *facts.Node, cards []*facts.Card) []Finding {
	if found := judgeLibcuda(node); found != nil {
		return found
	}
	torch := node.Python.Torch
	driver := node.NVML.Driver
	if bridged(node) {
		driver = "" // the kernel module's own CUDA no longer counts
	}
	runs, known := launch.DriverRuns(driver, node.NVML.CUDA, torch.CUDA)
	switch {
	case !known:
		return []Finding{unknown(node, "neither the version of the driver nor its CUDA was told")}
	case !runs:
		return []Finding{tooOldDriver(view, node, cards)}
	}
	return judgeGPUCode(view, node, cards)
}

func tooOldDriver(view View, node *facts.Node, cards []*facts.Card) Finding {
	torch := node.Python.Torch
	f := Finding{
		Nodes:   []string{node.Name},
		Summary: "the driver is too old for the CUDA that torch was built with",
		Got:     fmt.Sprintf("driver %s, which runs CUDA %s; torch %s", shown(node.NVML.Driver), shown(node.NVML.CUDA), torch.Version),
		Want:    "a driver for CUDA " + torch.CUDA,
		Remedy:  newerDriver(node, torch.CUDA),
	}
	if least := launch.LeastDriver(torch.CUDA); least != "" {
		f.Want = fmt.Sprintf("driver %s or later, for CUDA %s", least, torch.CUDA)
	}
	if len(consumer(node)) == 0 {
		f.Remedy = append(f.Remedy, fix.On("sudo apt-get install -y cuda-compat-%s", fix.Name(dashed(torch.CUDA))).Remark("or, on data centre GPUs: from NVIDIA's repository, its directory first in LD_LIBRARY_PATH"))
	}
	for _, commands := range otherTorch(view, node, cards) {
		f.Remedy = append(f.Remedy, commands.Remark("; or this: torch for the driver as it is"))
	}
	return f
}
