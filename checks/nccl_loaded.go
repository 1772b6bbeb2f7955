package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

var ncclLoaded = Check{
	ID:       "nccl-loaded",
	Title:    "the NCCL that will be loaded is the one torch was built for",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionPython},
	Doc: "LD_PRELOAD, and LD_LIBRARY_PATH before a wheel found by RUNPATH, put another libnccl before the one torch brought. An older one lacks functions " +
		"torch calls; a newer one as a rule works, and is warned of, because the nodes without that setting load another version. " +
		"A node whose torch carries its NCCL inside has nothing to confuse.",
	WouldSee: "undefined symbol: ncclCommRegister (or another nccl… name) at import torch",
	Run:      judgeLoadedNCCL,
}

func judgeLoadedNCCL(view View) []Finding {
	nodes := answering(view)
	if !slices.ContainsFunc(nodes, usesNCCL) {
		return nowhere(view, "torch with a libnccl of its own")
	}
	alike := len(groupBy(nodes, ncclVersion)) == 1
	var findings []Finding
	for _, node := range nodes {
		// A wheel that is odd on one node only is nccl-same's finding.
		if usesNCCL(node) && (alike || isShadowed(node.Python)) {
			findings = append(findings, judgeLibrary(view, node)...)
		}
	}
	return findings
}

func usesNCCL(n *facts.Node) bool { return n.Python.Torch != nil && len(n.Python.NCCL) > 0 }

// judgeLibrary compares the library that wins with the one torch expects.
func judgeLibrary(view View, node *facts.Node) []Finding {
	python, first := node.Python, node.Python.NCCL[0]
	want := expectedNCCL(python)
	if want == "" || first.Version == "" || first.Version == want || release(first.Version, 3) == release(want, 3) {
		return nil
	}
	f := Finding{
		Nodes:   []string{node.Name},
		Summary: "torch gets another NCCL than it was built for",
		Got:     fmt.Sprintf("%s from %s (%s)", first.Version, first.Path, first.From),
		Want:    want,
	}
	if !launch.Before(first.Version, want) {
		f.Verdict = Warn
		f.WouldSee = "Mismatched NCCL version detected, where the other nodes load another one"
	}
	switch first.From {
	case "LD_PRELOAD", "LD_LIBRARY_PATH":
		f.Remedy = []fix.Command{searchSession(first.From)}
	default:
		f.Remedy = []fix.Command{pip(view).Run("install --force-reinstall %s", fix.Package("torch=="+torchRelease(python.Torch)))}
	}
	return []Finding{f}
}

// isShadowed reports whether the library that wins is not the one that torch
// brought, or asks for.
func isShadowed(python *facts.Python) bool {
	brought := slices.IndexFunc(python.NCCL, isTorchs)
	asksForOne := python.Torch != nil && python.Torch.NCCLWheel != ""
	return brought > 0 || brought < 0 && asksForOne && len(python.NCCL) > 0
}

func isTorchs(library facts.NCCLLibrary) bool {
	return library.From == "wheel" || library.From == "torch"
}

// expectedNCCL is the version torch asks for, else that of the library it
// brought, "" when neither says.
func expectedNCCL(python *facts.Python) string {
	if python.Torch.NCCLWheel != "" {
		return python.Torch.NCCLWheel
	}
	if brought := slices.IndexFunc(python.NCCL, isTorchs); brought >= 0 {
		return python.NCCL[brought].Version
	}
	return ""
}
