// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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

var DriverRunsCUDA = checks.Check{
	ID:       "gpu-driver-runs-cuda",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionPython},
	Run:      judgeCUDA,
}

func judgeCUDA(view checks.View) []checks.Finding {
	nodes, findings := judgedGPUs(view)
	if len(nodes) == 0 {
		return findings
	}
	nodes = compare.Without(nodes, func(n *facts.Node) bool { return n.Python.Torch == nil })
	if len(nodes) == 0 {
		return append(findings, ranks.Nowhere(view, "torch")...)
	}
	alike := len(compare.GroupBy(nodes, ranks.TorchKind)) == 1
	cardsOf := usedCards(view)
	judged := false
	for _, node := range nodes {
		torch := node.Python.Torch
		switch {
		case isAMD(node) && torch.HIP == "":
			findings = append(findings, checks.OfNode(node, torchOfAnother(view, node))...)
		case isAMD(node):
		case torch.HIP != "", torch.CUDA == "" && !alike: // torch-same reports a CPU build among other builds
			continue
		case torch.CUDA == "":
			findings = append(findings, checks.OfNode(node, cpuBuild(view, node, cardsOf(node)))...)
		default:
			findings = append(findings, checks.OfNode(node, runsTorch(view, node, cardsOf(node))...)...)
		}
		judged = true
	}
	if !judged {
		return append(findings, checks.Skipped("no node has a torch that is built for CUDA")...)
	}
	return findings
}

// cpuBuild returns the finding for a torch that cannot use the GPUs of the node. If the launch does
// not name an accelerator, DeepSpeed would run on the CPU, which is hardly intended.
func cpuBuild(view checks.View, node *facts.Node, cards []*facts.Card) checks.Finding {
	f := checks.Finding{
		Summary: "torch is built for CPUs only, but the node has GPUs", Got: "torch " + node.Python.Torch.Version, Want: "a build for CUDA",
		WouldSee: "AssertionError: Torch not compiled with CUDA enabled", Remedy: otherTorch(view, node, cards),
	}
	if f.Remedy == nil { // no build of torch supports this old driver
		f.Remedy = append(newerDriver(node, "12"), fix.Note("then run preflight again: it names the build of torch to install"))
	}
	if view.Launch.AcceleratorAssumed {
		f.Remedy = append(f.Remedy, meantCPU)
		if !view.Launch.Torchrun() {
			f.WouldSee = takesCPU
		}
	}
	return f
}

// runsTorch checks libcuda first, because a wrong libcuda makes all other results misleading.
func runsTorch(view checks.View, node *facts.Node, cards []*facts.Card) []checks.Finding {
	if found := judgeLibcuda(node); found != nil {
		return found
	}
	runs, known := launch.DriverRuns(driverThatCounts(node), node.NVML.CUDA, node.Python.Torch.CUDA)
	switch {
	case !known:
		return []checks.Finding{checks.UnknownFor(node, "neither the driver's version nor its CUDA version was reported")}
	case !runs:
		return []checks.Finding{tooOldDriver(view, node, cards)}
	}
	return judgeGPUCode(view, node, cards)
}

func tooOldDriver(view checks.View, node *facts.Node, cards []*facts.Card) checks.Finding {
	torch := node.Python.Torch
	f := checks.Finding{
		Summary: fmt.Sprintf("driver %s is too old for CUDA %s, which torch was built with", compare.Shown(node.NVML.Driver), torch.CUDA),
		Got:     fmt.Sprintf("driver %s, which supports CUDA %s; torch %s", compare.Shown(node.NVML.Driver), compare.Shown(node.NVML.CUDA), torch.Version),
		Want:    "a driver for CUDA " + torch.CUDA,
		Remedy:  newerDriver(node, torch.CUDA),
	}
	if least := launch.LeastDriver(torch.CUDA); least != "" {
		f.Want = fmt.Sprintf("driver %s or later, for CUDA %s", least, torch.CUDA)
	}
	if len(consumer(node)) == 0 {
		f.Remedy = append(f.Remedy, fix.On("sudo apt-get install -y cuda-compat-%s", fix.Name(strings.ReplaceAll(hostfile.Release(torch.CUDA, 2), ".", "-"))).Inside().Remark("on data centre GPUs: from NVIDIA's repository; put its directory first in LD_LIBRARY_PATH").As(fix.Or))
	}
	for _, commands := range otherTorch(view, node, cards) {
		f.Remedy = append(f.Remedy, commands.Remark("; a torch for the present driver").As(fix.Or))
	}
	return f
}

func judgeGPUCode(view checks.View, node *facts.Node, cards []*facts.Card) []checks.Finding {
	torch, arch := *node.Python.Torch, valueOf(node.Host).Arch
	for i, card := range cards {
		if i > 0 && card.Capability == cards[i-1].Capability {
			continue
		}
		code, built := launch.TorchCode(torch, arch, card.Capability)
		translated := code == launch.CodePTX && node.NVML.CUDA != "" && hostfile.Before(node.NVML.CUDA, torch.CUDA)
		if code != launch.CodeNone && !translated {
			continue
		}
		f := checks.Finding{
			Summary:  "torch has no code for GPUs of compute capability " + card.Capability,
			Got:      fmt.Sprintf("%s of compute capability %s; torch %s is built for %s", compare.Shown(card.Name), card.Capability, torch.Version, strings.Join(built, ", ")),
			Want:     "a build of torch for compute capability " + card.Capability,
			Remedy:   otherTorch(view, node, cards),
			WouldSee: "CUDA error: no kernel image is available for execution on the device",
		}
		if translated {
			f.Summary = "torch's code for the GPUs needs a newer driver to translate it"
			f.Got += ", driver for CUDA " + node.NVML.CUDA
			f.WouldSee = "CUDA error: the provided PTX was compiled with an unsupported toolchain"
		}
		if f.Remedy == nil {
			f.Remedy = []fix.Command{fix.On("nvidia-smi").As(fix.Look), fix.Note("install a driver for which nvidia-smi shows CUDA %s or later, or a torch built for these GPUs: pytorch.org has none for this driver", fix.Text(torch.CUDA))}
		}
		return []checks.Finding{f}
	}
	return nil
}

// otherTorch returns the command that installs a build of torch that the node's driver supports and
// that has code for its GPUs. The build has the same release if possible. The command must force
// the installation, because pip ignores the CUDA label when it compares versions. otherTorch
// returns nil if pytorch.org has no such build.
func otherTorch(view checks.View, node *facts.Node, cards []*facts.Card) []fix.Command {
	var capabilities []string
	for _, card := range cards {
		if card.Capability != "" && !slices.Contains(capabilities, card.Capability) {
			capabilities = append(capabilities, card.Capability)
		}
	}
	wheels, found := launch.TorchFor(*node.Python.Torch, driverThatCounts(node), node.NVML.CUDA, capabilities)
	if !found {
		return nil
	}
	pip, index, all := remedy.Pip(view), fix.Name(wheels.Index), fix.Word(hostfile.Fold(checks.NamesOf(view.Everywhere())))
	if wheels.Release == "" {
		return []fix.Command{pip.Run("install --force-reinstall torch --index-url https://download.pytorch.org/whl/%s   # that index has torch %s and later, but before %s; install the same on %s",
			index, fix.Text(wheels.Since), fix.Text(wheels.Before), all)}
	}
	return []fix.Command{pip.Run("install --force-reinstall %s --index-url https://download.pytorch.org/whl/%s   # install the same on %s", fix.Package("torch=="+wheels.Release), index, all)}
}

func newerDriver(node *facts.Node, toolkit string) []fix.Command {
	least := launch.LeastDriver(toolkit)
	if least == "" {
		return nil
	}
	if !remedy.IsUbuntu(node) {
		return []fix.Command{fix.Note("install driver %s or later in the same way as the present one, then reboot", fix.Name(least))}
	}
	return []fix.Command{remedy.OnMachine(node, fix.On("sudo apt-get install -y %s   # Ubuntu; %s or later, then reboot", fix.List[fix.Name](" ", remedy.DriverPackages(node, least, remedy.ModuleKind(node))), fix.Text(least)))}
}

// firstLibcuda returns the libcuda.so.1 that a rank loads, or nil if none was found.
func firstLibcuda(node *facts.Node) *facts.DriverLibrary {
	if node.GPU == nil || len(node.GPU.Libcuda) == 0 {
		return nil
	}
	return &node.GPU.Libcuda[0]
}

// driverThatCounts returns the version of a node's driver. It returns "" if ranks load a libcuda of
// another version, because the CUDA version of the kernel module then does not matter.
func driverThatCounts(node *facts.Node) string {
	if bridged(node) {
		return ""
	}
	return node.NVML.Driver
}

// bridged reports whether ranks load a libcuda whose version differs from that of the kernel
// module. The number in the file's name counts only if it looks like a driver version, because WSL
// and Jetson have a libcuda.so.1.1.
func bridged(node *facts.Node) bool {
	first := firstLibcuda(node)
	return first != nil && node.GPU.Module != "" && first.Version != "" && !hostfile.Before(first.Version, "100") && first.Version != node.GPU.Module
}

// judgeLibcuda returns the findings for a libcuda that does not work with the kernel module. These
// are CUDA's errors 34, 803 and 804.
//
// Source: NVIDIA, CUDA Compatibility, r590, forward compatibility: a newer libcuda works only on
// data centre GPUs and some of the RTX line, and only with the driver branches that newer libraries
// name themselves (facts.DriverLibrary).
func judgeLibcuda(node *facts.Node) []checks.Finding {
	first := firstLibcuda(node)
	if first == nil {
		return nil
	}
	f := checks.Finding{Got: fmt.Sprintf("%s (%s)", first.Path, first.From), Remedy: hideLibcuda(first)}
	switch {
	case first.Problem != "":
		f.Summary, f.Want = "ranks load a libcuda.so.1 that is no library: "+first.Problem, "the driver's libcuda.so.1"
		f.WouldSee = "RuntimeError: Found no NVIDIA driver on your system"
		if container := ranks.ContainerOf(node); first.From != "LD_LIBRARY_PATH" && container != "" {
			f.Remedy = remedy.RestartContainer(container, fix.Code("its runtime left a broken %s", fix.Path(first.Path)))
		} else if first.From != "LD_LIBRARY_PATH" {
			f.Remedy = []fix.Command{fix.On("ls -lL %s", fix.Path(first.Path)).As(fix.Look), fix.Note("install the driver of {nodes} again, in the same way as before")}
		}
		return []checks.Finding{f}
	case strings.Contains(first.Path, "/stubs/"):
		f.Summary, f.Want = "ranks load the CUDA toolkit's stub of libcuda, which is only for linking", "the driver's libcuda.so.1"
		f.WouldSee = "CUDA error 34: CUDA driver is a stub library"
		return []checks.Finding{f}
	case !bridged(node):
		return nil
	}
	f.Got = fmt.Sprintf("libcuda %s from %s (%s), kernel module %s", first.Version, first.Path, first.From, node.GPU.Module)
	f.Want = "libcuda " + node.GPU.Module
	switch {
	case hostfile.Before(first.Version, node.GPU.Module):
		f.Summary = fmt.Sprintf("ranks load libcuda %s, older than kernel module %s", first.Version, node.GPU.Module)
		f.WouldSee = unlikeDriver
	case len(consumer(node)) > 0:
		f.Summary = fmt.Sprintf("ranks load libcuda %s, too new for module %s on these GPUs", first.Version, node.GPU.Module)
		f.Got += ", " + consumer(node)[0]
		f.WouldSee = "Unexpected error from cudaGetDeviceCount() … Error 804: forward compatibility was attempted on non supported HW"
	case first.Compat && first.Branches != nil && !slices.Contains(first.Branches, branchOf(node.GPU.Module)):
		f.Summary = fmt.Sprintf("ranks load libcuda from a cuda-compat package that does not support %s", node.GPU.Module)
		f.Got += ", for drivers " + strings.Join(text.Map(first.Branches, strconv.Itoa), ", ")
		f.Want = "a driver of one of these branches, a cuda-compat package for this driver, or libcuda " + node.GPU.Module
		f.WouldSee = unlikeDriver
	case first.Compat:
		return nil
	default:
		f.Verdict = checks.Warn
		f.Summary = fmt.Sprintf("ranks load libcuda %s, newer than module %s, without cuda-compat", first.Version, node.GPU.Module)
		f.WouldSee = "nothing, if forward compatibility covers it; otherwise " + unlikeDriver
	}
	return []checks.Finding{f}
}

// branchOf returns the first number of a driver's version, or 0 if there is none.
func branchOf(version string) int {
	branch, _ := strconv.Atoi(hostfile.Release(version, 1)) // no error: a version begins with a number
	return branch
}

func hideLibcuda(library *facts.DriverLibrary) []fix.Command {
	if library.From == "LD_LIBRARY_PATH" {
		return []fix.Command{
			ranks.SearchSession("LD_LIBRARY_PATH").As(fix.Look),
			fix.On("ldconfig -p | grep libcuda.so.1   # shows the driver's own libcuda").As(fix.Look),
			fix.Note("remove the directory of the wrong libcuda from LD_LIBRARY_PATH"),
		}
	}
	return []fix.Command{
		fix.On("grep -rn . /etc/ld.so.conf.d; ldconfig -p | grep libcuda.so.1").As(fix.Look),
		fix.Note("remove the directory of the wrong libcuda from /etc/ld.so.conf.d on {nodes}, then run ldconfig there"),
	}
}

// consumer returns the GPU models of a node that certainly lack forward compatibility.
func consumer(node *facts.Node) (models []string) {
	for i := range node.NVML.Cards {
		if card := &node.NVML.Cards[i]; isConsumer(card) {
			models = append(models, card.Name)
		}
	}
	return slices.Compact(models)
}

func isConsumer(card *facts.Card) bool {
	name := strings.TrimPrefix(card.Name, "NVIDIA ")
	return strings.HasPrefix(name, "GeForce") || strings.HasPrefix(name, "TITAN")
}

var NCCLFits = checks.Check{
	ID:       "nccl-fits-gpu",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNVML, facts.SectionPython},
	Run:      judgeNCCLCode,
}

func judgeNCCLCode(view checks.View) []checks.Finding {
	nodes, findings := judgedNVIDIA(view)
	if len(nodes) == 0 {
		return findings
	}
	nodes = compare.Without(nodes, func(n *facts.Node) bool { return len(n.Python.NCCL) == 0 || isLinked(n) || hasNoCode(n) })
	if len(nodes) == 0 {
		return append(findings, checks.Skipped("no node has both a separate libnccl and a torch with code for its GPUs")...)
	}
	cardsOf := usedCards(view)
	for _, node := range nodes {
		findings = append(findings, checks.OfNode(node, lacksNCCLCode(view, node, cardsOf(node))...)...)
	}
	return findings
}

// isLinked reports whether torch's own library contains NCCL.
func isLinked(node *facts.Node) bool {
	torch := node.Python.Torch
	return torch != nil && torch.CUDALibrary != "" && node.Python.NCCL[0].Path == torch.CUDALibrary
}

// hasNoCode reports whether torch is known to lack code for some of a node's GPUs.
func hasNoCode(node *facts.Node) bool {
	torch, judged := node.Python.Torch, ""
	return torch != nil && slices.ContainsFunc(node.NVML.Cards, func(card facts.Card) bool {
		if card.Capability == judged {
			return false // fast path: usually all GPUs of a node are equal
		}
		judged = card.Capability
		code, _ := launch.TorchCode(*torch, valueOf(node.Host).Arch, card.Capability)
		return code == launch.CodeNone
	})
}

func lacksNCCLCode(view checks.View, node *facts.Node, cards []*facts.Card) []checks.Finding {
	first := node.Python.NCCL[0]
	for i, card := range cards {
		if card.Capability == "" || i > 0 && card.Capability == cards[i-1].Capability {
			continue
		}
		if first.Code == nil {
			return []checks.Finding{checks.UnknownFor(node, first.Path+" does not report which GPUs it has code for")}
		}
		code := launch.CodeFor(first.Code, card.Capability)
		untranslated := code == launch.CodePTX && node.NVML.CUDA != "" && hostfile.Before(node.NVML.CUDA, first.CUDA)
		if code != launch.CodeNone && !untranslated {
			continue
		}
		f := checks.Finding{
			Summary: fmt.Sprintf("NCCL %s has no code for GPUs of compute capability %s", compare.Shown(first.Version), card.Capability),
			Got:     fmt.Sprintf("%s of compute capability %s; NCCL %s in %s (%s) is built for %s", compare.Shown(card.Name), card.Capability, compare.Shown(first.Version), first.Path, first.From, strings.Join(first.Code, ", ")),
			Want:    "a build of NCCL for compute capability " + card.Capability,
			Remedy:  otherNCCL(view, node, card),
		}
		if untranslated {
			f.Summary = "NCCL's code for the GPUs needs a newer driver to translate it"
			f.Got += fmt.Sprintf(" by CUDA %s, driver for CUDA %s", first.CUDA, node.NVML.CUDA)
			f.WouldSee = "NCCL WARN Cuda failure 'the provided PTX was compiled with an unsupported toolchain.'"
		}
		return []checks.Finding{f}
	}
	return nil
}

// otherNCCL returns the commands that remove the library that hides torch's own NCCL. If torch's
// own library lacks the code, the commands install another library.
//
// Source: the headers of NVIDIA's wheels of NCCL 2.18.1 to 2.32.3; NVIDIA/nccl, makefiles/common.mk
// and README.md, for NVCC_GENCODE.
func otherNCCL(view checks.View, node *facts.Node, card *facts.Card) []fix.Command {
	if from := node.Python.NCCL[0].From; from == "LD_PRELOAD" || from == "LD_LIBRARY_PATH" {
		return []fix.Command{
			ranks.SearchSession(from).As(fix.Look),
			fix.Note("remove this library from %s, in the file that sets the variable", fix.Variable(from)),
		}
	}
	bare := strings.ReplaceAll(card.Capability, ".", "")
	return []fix.Command{
		remedy.Pip(view).List().As(fix.Look),
		fix.Note("install the NCCL wheel for torch's CUDA on all nodes: nvidia-nccl-cu12 has code from compute capability 5.0 on, nvidia-nccl-cu13 from 7.5 on"),
		fix.Note("or build NCCL on the machine: make src.build NVCC_GENCODE='-gencode=arch=compute_%s,code=sm_%s'", fix.Name(bare), fix.Name(bare)),
	}
}
