// SPDX-License-Identifier: Apache-2.0

package software

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
)

var ModuleShadowed = checks.Check{
	ID:       "module-shadowed",
	Severity: checks.Error,
	Volatile: true,
	Needs:    []facts.Section{facts.SectionPython},
	Run:      judgeShadows,
}

func judgeShadows(view checks.View) []checks.Finding {
	nodes := ranks.Answering(view)
	if len(nodes) == 0 {
		return checks.Skipped("no interpreter answered: see python-same")
	}
	having := map[string]int{} // the number of nodes that have it, by the path of the hiding file
	for _, node := range nodes {
		for path := range pathsOf(node.Python.Shadows) {
			having[path]++
		}
	}
	var findings []checks.Finding
	for _, node := range nodes {
		reported := map[string]int{} // indexes of findings, by the path of a file that hides several modules
		for _, s := range node.Python.Shadows {
			f, matters := judgeShadow(view, node, s)
			if !matters {
				continue
			}
			if having[s.Path] < len(nodes) {
				f.Summary += " (not on every node)"
			}
			at, known := reported[s.Path]
			switch {
			case !known:
				reported[s.Path] = len(findings)
				findings = append(findings, f)
			case f.Verdict == "" && findings[at].Verdict == checks.Warn: // both the script and the launcher search this directory, so keep the graver finding
				findings[at] = f
			}
		}
	}
	return findings
}

func pathsOf(shadows []facts.Shadow) map[string]bool {
	paths := map[string]bool{}
	for _, s := range shadows {
		paths[s.Path] = true
	}
	return paths
}

// judgeShadow returns the finding for the processes that search the directory of the hiding file.
// matters is false if no process searches it.
func judgeShadow(view checks.View, node *facts.Node, s facts.Shadow) (f checks.Finding, matters bool) {
	p := view.Launch
	byRanks := s.In == facts.InPythonPath || s.In == facts.InScriptDir && !p.Module && !p.NoPython || s.In == facts.InWorkDir && p.Module
	launchPy := p.StartedBy().LaunchPy && !p.Local
	byLauncher := s.In == facts.InPythonPath && (launchPy || p.Torchrun()) || s.In == facts.InWorkDir && (launchPy || p.Torchrun() && p.ByModule)
	needs := launch.NotImported // the modules that the processes that search there certainly import
	switch {
	case p.Script == "":
	case byLauncher && launchPy, byRanks && callsDeepSpeed(view, node):
		needs = launch.ByDeepSpeed
	case byLauncher, byRanks && trains(view, node):
		needs = launch.ByTorch
	}
	by := launch.ImportedBy(s.Module)
	f = checks.Finding{Nodes: []string{node.Name}, Got: s.Path, Want: s.Hides}
	name := path.Base(s.Path)
	where := map[string]string{
		facts.InScriptDir:  "next to the script",
		facts.InWorkDir:    "in the working directory",
		facts.InPythonPath: "in PYTHONPATH",
	}[s.In]
	if script := ranks.ScriptAt(p, node); script != nil && s.In == facts.InScriptDir && script.Path == s.Path {
		where = "(the script itself)"
	}
	origin := "Python's own"
	if strings.Contains(s.Hides, "-packages/") {
		origin = "the installed"
	}
	f.Summary = fmt.Sprintf("%s %s hides %s %s", name, where, origin, s.Module)
	f.Remedy = []fix.Command{fix.On("ls -ld %s", fix.Path(s.Path)).As(fix.Look), fix.On("mv -n %s %s   # and import it under the new name; in a repository use git mv", fix.Path(s.Path), fix.Path(renamed(s.Path)))}
	f.WouldSee = fmt.Sprintf("ImportError: cannot import name … from '%[1]s' (%[2]s), or AttributeError: module '%[1]s' has no attribute …", s.Module, s.Path)
	switch {
	case !byRanks && !byLauncher:
		return f, false
	case s.Copy:
		f.Verdict = checks.Warn
		f.Remedy = []fix.Command{f.Remedy[0], fix.Note("remove the copy from the path, unless the launch is meant to use it")}
		f.Summary = fmt.Sprintf("a copy of %s %s is imported, not the installed one", s.Module, where)
		f.WouldSee = "depends on the copy: preflight compares only the versions of installed packages"
	case by != launch.NotImported && by >= needs && needs != launch.NotImported: // the verdict stays a failure
	case byRanks && slices.Contains(importsOf(view, node), s.Module), by != launch.NotImported:
		f.Verdict = checks.Warn
		f.WouldSee += ", if the script imports it and means the other module"
	default:
		return f, false
	}
	return f, true
}

// importsOf returns the names of the modules that the script imports, or nil if the script was not
// read.
func importsOf(view checks.View, node *facts.Node) []string {
	if script := ranks.ScriptAt(view.Launch, node); script != nil {
		return script.Imports
	}
	return nil
}

// trains reports whether the ranks may import torch. They may if the script was not read, or if it
// imports torch or a package that imports torch. A script without any imports may do anything, so
// it counts too.
func trains(view checks.View, node *facts.Node) bool {
	imports := importsOf(view, node)
	return len(imports) == 0 || view.Launch.Config != nil ||
		slices.ContainsFunc(imports, func(name string) bool { return slices.Contains(trainers, name) })
}

// trainers lists packages that import torch.
var trainers = []string{
	"accelerate", "colossalai", "composer", "deepspeed", "diffusers", "fairscale", "lightning", "megatron", "peft", "pytorch_lightning",
	"timm", "torch", "torchvision", "transformers", "trl",
}

// renamed returns a new path for the hiding file, under which it hides nothing.
func renamed(in string) string {
	dir, name := path.Split(in)
	stem, rest, hasRest := strings.Cut(name, ".")
	if hasRest {
		rest = "." + rest
	}
	return dir + stem + "_" + rest
}
