// SPDX-License-Identifier: Apache-2.0

package software

import (
	"path"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
)

// brokenImports returns a finding for each node whose Python could not import torch, or another
// module. A module that fails for the same reason as the one before is left out.
func brokenImports(view checks.View, nodes []*facts.Node, ofTorch bool) (findings []checks.Finding) {
	for _, node := range nodes {
		var reported []string
		broken := node.Python.Broken
		if torch := node.Python.Torch; torch != nil && torch.Unloadable != "" { // without a launch only the loader is asked
			broken = append(slices.Clone(broken), facts.BrokenImport{Module: "torch", Error: "ImportError: " + torch.Unloadable})
		}
		for _, b := range broken {
			name := packageOf(node, b.File)
			isReported := b.File != "" && slices.Contains(reported, b.File) || slices.Contains(reported, b.Error) || slices.Contains(reported, b.Module)
			reported = append(reported, b.File, b.Error, b.Module)
			if (b.Module == "torch") == ofTorch && !isReported && !reportedElsewhere(node, b, name) {
				findings = append(findings, brokenImport(view, node, b, name))
			}
		}
	}
	return findings
}

// reportedElsewhere reports whether another finding has the reason why an import failed: damaged files,
// too little address space, a missing requirement, or a file that hides a module.
func reportedElsewhere(node *facts.Node, b facts.BrokenImport, name string) bool {
	isDamaged := slices.ContainsFunc(node.Python.Damaged, func(d facts.Damage) bool { return d.Module == b.Module || d.Package == name })
	lacks := slices.ContainsFunc(node.Python.Unfound, func(module string) bool { return strings.HasSuffix(b.Error, "No module named '"+module+"'") })
	hidden := slices.ContainsFunc(node.Python.Shadows, func(s facts.Shadow) bool { return s.In != facts.InScriptDir && !s.Copy })
	return isDamaged || lacks || hidden || b.Module == "torch" && ranks.TorchLacksSpace(node) != ""
}

func brokenImport(view checks.View, node *facts.Node, b facts.BrokenImport, name string) checks.Finding {
	f := checks.Finding{
		Verdict: checks.Fail, Nodes: []string{node.Name}, Summary: b.Module + " is installed but cannot be imported",
		Got: b.Error, Want: "import " + b.Module + " works", WouldSee: b.Error,
	}
	look := fix.On("%s -c 'import %s'", fix.Path(node.Python.Path), fix.Module(b.Module)).As(fix.Look)
	variable, value, isVariable := strings.Cut(b.Because, "=")
	version, pip := node.Python.Packages[name], remedy.Pip(view)
	pip.Again = true
	switch {
	case isVariable:
		f.Summary, f.Got = variable+" keeps "+b.Module+" from being imported", b.Because+": "+b.Error
		f.Want = variable + " without the path that leads to another library or package"
		f.Remedy = append(ranks.TakeOut(view, facts.Setting{Name: variable, Value: value}), fix.Note("remove the line that sets %s", fix.Variable(variable)))
	case version != "":
		if name != b.Module {
			f.Summary = b.Module + " cannot be imported, because " + name + " is damaged"
		}
		f.Remedy = append([]fix.Command{look}, pip.Install([]fix.Requirement{{Name: name, Version: version}})...)
	case name == "" && b.File != "":
		f.Summary = b.Module + " cannot be imported, because Python's own library is damaged"
		f.Remedy = []fix.Command{look, fix.Note("install the interpreter on {nodes} again")}
	default:
		f.Remedy = []fix.Command{look, fix.On("env | grep ^LD_; ulimit -a").As(fix.Look), fix.Note("install %s on {nodes} again, or correct LD_LIBRARY_PATH or ulimit -v", fix.Module(b.Module))}
	}
	return f
}

// packageOf returns the name of the package to which a file belongs, or "" if the file is part of
// Python's own library.
func packageOf(node *facts.Node, file string) string {
	in := ""
	for _, dir := range node.Python.SysPath {
		if strings.HasPrefix(file, dir+"/") && len(dir) > len(in) {
			in = dir
		}
	}
	if in == "" || !strings.HasSuffix(path.Base(in), "-packages") {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(file, in+"/"), "/")
	return strings.ReplaceAll(strings.TrimSuffix(name, ".py"), "_", "-")
}
