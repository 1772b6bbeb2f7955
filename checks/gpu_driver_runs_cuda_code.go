package checks

import (
	"fmt"
	"strings"

	"preflight/facts"
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
			Fix:      []string{torchForGPU(view, card.Capability)},
			WouldSee: "CUDA error: no kernel image is available for execution on the device",
		}
		if translated {
			f.Summary = "torch has code for the GPUs that only a newer driver can translate"
			f.Got += ", driver for CUDA " + node.NVML.CUDA
			f.WouldSee = "CUDA error: the provided PTX was compiled with an unsupported toolchain"
		}
		return []Finding{f}
	}
	return nil
}

// torchForGPU installs the wheels that have code for a compute capability: the
// newest CUDA for Blackwell and later, the legacy one for what that has dropped.
func torchForGPU(view View, capability string) string {
	index := "cu128"
	if launch.Before(capability, "7.5") {
		index = "cu126"
	}
	return pipOn(view) + "install --upgrade torch --index-url https://download.pytorch.org/whl/" + index + "   # the same on every node"
}

// otherTorch installs a build of torch that the driver of a node runs.
func otherTorch(view View, node *facts.Node) string {
	index, releases := launch.TorchFor(release(driverCUDA(node), 1))
	if index == "" {
		return pipOn(view) + "install --upgrade torch"
	}
	return pipOn(view) + "install --force-reinstall torch --index-url https://download.pytorch.org/whl/" + index + "   # torch " + releases + " are there"
}

// dashed is a CUDA version as packages spell it, "12-4".
func dashed(version string) string { return strings.ReplaceAll(release(version, 2), ".", "-") }
