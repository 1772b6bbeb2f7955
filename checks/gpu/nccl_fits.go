// SPDX-License-Identifier: Apache-2.0

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
	"preflight/hostfile"
	"preflight/launch"
)

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
