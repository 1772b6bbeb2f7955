package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
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
			Remedy:   otherTorch(view, node, cards),
			WouldSee: "CUDA error: no kernel image is available for execution on the device",
		}
		if translated {
			f.Summary = "torch has code for the GPUs that only a newer driver can translate"
			f.Got += ", driver for CUDA " + node.NVML.CUDA
			f.WouldSee = "CUDA error: the provided PTX was compiled with an unsupported toolchain"
		}
		if f.Remedy == nil {
			f.Remedy = []fix.Command{fix.On("nvidia-smi   # install a driver that shows CUDA %s or later here, or a torch that was built for these GPUs: pytorch.org has none for this driver", fix.Text(torch.CUDA))}
		}
		return []Finding{f}
	}
	return nil
}

// otherTorch installs a build of torch that the driver of a node runs and that has
// code for its GPUs, of the same release where there is one. pip takes the CUDA of a
// build for a part of the version that says nothing, and leaves the one at hand
// where it is not forced. It is nil where pytorch.org has none.
func otherTorch(view View, node *facts.Node, cards []*facts.Card) []fix.Command {
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
	all := fix.Word(hostfile.Fold(everywhere))
	if wheels.Release == "" {
		return []fix.Command{pip(view).Run("install --force-reinstall torch --index-url https://download.pytorch.org/whl/%s   # torch %s and later, before %s, is there; the same on %s",
			fix.Name(wheels.Index), fix.Text(wheels.Since), fix.Text(wheels.Before), all)}
	}
	return []fix.Command{pip(view).Run("install --force-reinstall %s --index-url https://download.pytorch.org/whl/%s   # the same on %s",
		fix.Package("torch=="+wheels.Release), fix.Name(wheels.Index), all)}
}

// newerDriver installs the driver that a CUDA takes.
func newerDriver(node *facts.Node, toolkit string) []fix.Command {
	least := launch.LeastDriver(toolkit)
	if least == "" {
		return nil
	}
	if !isUbuntu(node) {
		return []fix.Command{fix.Note("install driver %s or later in the way that the present one came to be installed, then reboot", fix.Name(least))}
	}
	return []fix.Command{onMachine(node, fix.On("sudo apt-get install -y %s   # Ubuntu; %s or later, then reboot", fix.List[fix.Name](" ", driverPackages(node, least, moduleKind(node))), fix.Text(least)))}
}

// dashed is a CUDA version as packages spell it, "12-4".
func dashed(version string) string { return strings.ReplaceAll(release(version, 2), ".", "-") }
