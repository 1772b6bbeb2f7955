// SPDX-License-Identifier: Apache-2.0

package software

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch/nccl"
)

var NCCLSame = checks.Check{
	ID:       "nccl-same",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionPython},
	Run:      judgeNCCL,
}

func judgeNCCL(view checks.View) []checks.Finding {
	var nodes []*facts.Node
	for _, node := range ranks.Answering(view) {
		hidden := usesNCCL(node) && isShadowed(node.Python) && judgeLibrary(view, node) != nil
		if !hidden {
			nodes = append(nodes, node)
		}
	}
	if !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return len(n.Python.NCCL) > 0 }) {
		return noNCCL(view, nodes)
	}
	var findings []checks.Finding
	nodes = slices.DeleteFunc(nodes, func(n *facts.Node) bool {
		silent := len(n.Python.NCCL) > 0 && n.Python.NCCL[0].Version == ""
		if silent {
			findings = append(findings, checks.UnknownFor(n, n.Python.NCCL[0].Path+" does not report its version"))
		}
		return silent
	})
	nodes = compare.AsStated(view, nodes, "python.nccl.*.version")
	wanted := required{
		Name:    library(nodes),
		Version: nccl.Version,
		Install: func(pip fix.Pip, version string) fix.Command { return installNCCL(pip, nodes, version) },
		IsBare:  hasNCCLWheel,
		Lacking: "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory",
	}
	if wanted.Name == rccl {
		wanted.Lacking = "ImportError: librccl.so.1: cannot open shared object file: No such file or directory"
	}
	absent, unlike := wanted.findings(view, nodes)
	for _, f := range append(absent, unlike...) {
		if !ranks.UsesNCCL(view) && !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return slices.Contains(f.Nodes, n.Name) && len(n.Python.NCCL) == 0 }) {
			f.Verdict, f.WouldSee = checks.Warn, "nothing: with accelerator cpu, ranks load NCCL but do not use it"
		}
		findings = append(findings, f)
	}
	if versions := compare.GroupBy(nodes, nccl.Version); len(versions) != 1 || versions[0].Value == "" {
		return findings // different versions already explain different CUDA builds
	}
	built := func(n *facts.Node) string { return n.Python.NCCL[0].CUDA }
	name := "NCCL for CUDA"
	if wanted.Name == rccl {
		name, built = "RCCL for ROCm", func(n *facts.Node) string { return n.Python.NCCL[0].HIP }
	}
	return append(findings, compare.Findings("NCCL builds", compare.Differences(compare.Among(nodes, name, built)), checks.Finding{
		Verdict: checks.Warn, WouldSee: "usually nothing: NCCL compares only its own version", Remedy: []fix.Command{listed(view)},
	})...)
}

// rccl is the name of ROCm's library. It uses NCCL's version numbers.
const rccl = "RCCL"

// library returns the name of the library that ranks load: "NCCL" or "RCCL".
func library(nodes []*facts.Node) string {
	if slices.ContainsFunc(nodes, func(n *facts.Node) bool { return len(n.Python.NCCL) > 0 && n.Python.NCCL[0].HIP != "" }) {
		return rccl
	}
	return "NCCL"
}

// noNCCL returns the findings for a fleet without NCCL. The check fails if the ranks use GPUs and
// torch is known to need a separate NCCL library. That is known if torch came with CUDA libraries,
// or if it requires NCCL's wheel.
func noNCCL(view checks.View, nodes []*facts.Node) []checks.Finding {
	var lack []string
	for _, node := range nodes {
		if torch := node.Python.Torch; torch != nil && torch.CUDA != "" && (torch.NCCLWheel != "" || torch.CUDALibrary != "") {
			lack = append(lack, node.Name)
		}
	}
	switch {
	case view.Launch.Accelerator == "cpu":
		return checks.Skipped("accelerator cpu: NCCL is not used")
	case lack == nil:
		return ranks.Nowhere(view, "a libnccl of its own")
	}
	return []checks.Finding{{
		Nodes:    lack,
		Summary:  "torch is built for CUDA, but no node has an NCCL library for it",
		Want:     "the libnccl.so.2 that torch needs",
		WouldSee: "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory, or RuntimeError: Distributed package doesn't have NCCL built in",
		Remedy:   []fix.Command{remedy.Pip(view).Run("install --force-reinstall torch")},
	}}
}

// hasNCCLWheel reports whether pip considers a wheel of NCCL installed.
func hasNCCLWheel(node *facts.Node) bool {
	for name := range node.Python.Packages {
		if strings.HasPrefix(name, "nvidia-nccl") {
			return true
		}
	}
	return false
}

// installNCCL returns the command that installs the NCCL wheel of a version. The wheel is that of a
// node that has the version. If no node has such a wheel, the command lists the packages.
func installNCCL(pip fix.Pip, nodes []*facts.Node, version string) fix.Command {
	for _, node := range nodes {
		for _, name := range slices.Sorted(maps.Keys(node.Python.Packages)) {
			if strings.HasPrefix(name, "nvidia-nccl") && hostfile.Release(node.Python.Packages[name], 3) == hostfile.Release(version, 3) {
				return pip.Install([]fix.Requirement{{Name: name, Version: node.Python.Packages[name]}})[0]
			}
		}
	}
	return pip.List().As(fix.Look)
}

var NCCLLoaded = checks.Check{
	ID:       "nccl-loaded",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionPython},
	Run:      judgeLoadedNCCL,
}

func judgeLoadedNCCL(view checks.View) []checks.Finding {
	nodes := ranks.Answering(view)
	if !slices.ContainsFunc(nodes, usesNCCL) {
		return ranks.Nowhere(view, "torch with a libnccl of its own")
	}
	alike := len(compare.GroupBy(nodes, nccl.Version)) == 1
	var findings []checks.Finding
	for _, node := range nodes {
		// nccl-same reports a wheel that differs on one node.
		if usesNCCL(node) && (alike || isShadowed(node.Python)) {
			findings = append(findings, judgeLibrary(view, node)...)
		}
	}
	return findings
}

func usesNCCL(n *facts.Node) bool { return n.Python.Torch != nil && len(n.Python.NCCL) > 0 }

// judgeLibrary compares the NCCL library that the loader finds first with the library that torch
// expects.
func judgeLibrary(view checks.View, node *facts.Node) []checks.Finding {
	python, first := node.Python, node.Python.NCCL[0]
	want := python.Torch.NCCLWheel
	if own := ownNCCL(python); want == "" && own >= 0 {
		want = python.NCCL[own].Version
	}
	if want == "" || first.Version == "" || hostfile.Release(first.Version, 3) == hostfile.Release(want, 3) {
		return nil
	}
	f := checks.Finding{
		Nodes:   []string{node.Name},
		Summary: fmt.Sprintf("torch loads %s %s, but was built for %s", library([]*facts.Node{node}), first.Version, want),
		Got:     fmt.Sprintf("%s from %s (%s)", first.Version, first.Path, first.From),
		Want:    want + ", the version that torch was built for",
		Remedy:  []fix.Command{remedy.Pip(view).Run("install --force-reinstall %s", fix.Package("torch=="+torchRelease(node)))},
	}
	if !hostfile.Before(first.Version, want) {
		f.Verdict = checks.Warn
		f.WouldSee = "Mismatched NCCL version detected, if the other nodes load another version"
	}
	if first.From == "LD_PRELOAD" || first.From == "LD_LIBRARY_PATH" {
		f.Remedy = []fix.Command{
			ranks.SearchSession(first.From).As(fix.Look),
			fix.Note("remove this library from %s, in the file that sets the variable", fix.Variable(first.From)),
		}
	}
	return []checks.Finding{f}
}

// isShadowed reports whether the library that the loader finds first is the wrong one: it did not
// come with torch, and torch does not require it.
func isShadowed(python *facts.Python) bool {
	own, asksForOne := ownNCCL(python), python.Torch != nil && python.Torch.NCCLWheel != ""
	return own > 0 || own < 0 && asksForOne && len(python.NCCL) > 0
}

// ownNCCL returns the index of the library that came with torch, or -1 if it was not found.
func ownNCCL(python *facts.Python) int {
	return slices.IndexFunc(python.NCCL, func(l facts.NCCLLibrary) bool { return l.From == "wheel" || l.From == "torch" })
}
