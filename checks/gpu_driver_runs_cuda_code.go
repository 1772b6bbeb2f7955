package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// judgeGPUCode is of a torch without code for the GPUs that its ranks use.
func judgeGPUCode(view View, node *facts.Node, cards []*facts.Card) []Finding {
	torch := *node.Python.Torch
	arch := ""
	if node.Host != nil {
		arch = node.Host.Arch
	}
	for i, card := range cards {
		if i > 0 && card.Capability == cards[i-1].Capability {
			continue
		}
		code, built := launch.TorchCode(torch, arch, card.Capability)
		translated := code == launch.CodePTX && node.NVML.CUDA != "" && launch.Before(node.NVML.CUDA, torch.CUDA)
		if code != launch.CodeNone && !translated {
			continue
		}
		f := Finding{
			Nodes:    []string{node.Name},
			Summary:  "torch has no code for the GPUs",
			Got:      fmt.Sprintf("%s of compute capability %s; torch %s is built for %s", shown(card.Name), card.Capability, torch.Version, strings.ReplaceAll(built, " ", ", ")),
			Want:     "a build of torch for compute capability " + card.Capability,
			Fix:      otherTorch(view, node, cards),
			WouldSee: "CUDA error: no kernel image is available for execution on the device",
		}
		if translated {
			f.Summary = "torch has code for the GPUs that only a newer driver can translate"
			f.Got += ", driver for CUDA " + node.NVML.CUDA
			f.WouldSee = "CUDA error: the provided PTX was compiled with an unsupported toolchain"
		}
		if f.Fix == nil {
			f.Fix = []string{"{ssh} nvidia-smi   # install a driver that shows CUDA " + torch.CUDA + " or later here, or a torch that was built for these GPUs: pytorch.org has none for this driver"}
		}
		return []Finding{f}
	}
	return nil
}

// otherTorch installs a build of torch that the driver of a node runs and that has
// code for its GPUs, of the same release where there is one. pip takes the CUDA of a
// build for a part of the version that says nothing, and leaves the one at hand
// where it is not forced. It is nil where pytorch.org has none.
func otherTorch(view View, node *facts.Node, cards []*facts.Card) []string {
	driver := node.NVML.Driver
	if bridged(node) {
		driver = ""
	}
	var capabilities []string
	for _, card := range cards {
		if card.Capability != "" && !slices.Contains(capabilities, card.Capability) {
			capabilities = append(capabilities, card.Capability)
		}
	}
	wheels, found := launch.TorchFor(*node.Python.Torch, driver, node.NVML.CUDA, capabilities)
	if !found {
		return nil
	}
	var everywhere []string
	for i := range view.All {
		everywhere = append(everywhere, view.All[i].Name)
	}
	same := "the same on " + ShellWord(hostfile.Fold(everywhere))
	torch, note := "torch=="+wheels.Release, same
	if wheels.Release == "" {
		torch, note = "torch", fmt.Sprintf("torch %s and later, before %s, is there; %s", wheels.Since, wheels.Before, same)
	}
	return []string{byPip(view, "install --force-reinstall "+torch+" --index-url https://download.pytorch.org/whl/"+wheels.Index+"   # "+note)}
}

// newerDriver installs the driver that a CUDA takes.
func newerDriver(node *facts.Node, toolkit string) []string {
	least := launch.LeastDriver(toolkit)
	if least == "" {
		return nil
	}
	if !isUbuntu(node) {
		return []string{"# install driver " + least + " or later in the way that the present one came to be installed, then reboot"}
	}
	return []string{onMachine(node, "{ssh} sudo apt-get install -y "+driverPackages(node, least, moduleKind(node))+"   # Ubuntu; "+least+" or later, then reboot")}
}

// dashed is a CUDA version as packages spell it, "12-4".
func dashed(version string) string { return strings.ReplaceAll(release(version, 2), ".", "-") }
