// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
)

// scriptImports returns findings for nodes whose Python does not find the modules that the script
// imports.
func scriptImports(view checks.View) (findings []checks.Finding) {
	nodes := compare.Without(view.Nodes, func(n *facts.Node) bool { return n.Python == nil || n.Python.Problem != "" })
	pip := remedy.Pip(view)
	for _, lacking := range compare.GroupBy(nodes, func(n *facts.Node) string { return strings.Join(cannotImport(view, n), " ") }) {
		modules := strings.Fields(lacking.Value)
		if len(modules) == 0 {
			continue
		}
		f := checks.Finding{
			Nodes: lacking.Nodes, Verdict: checks.Fail,
			Summary:  fmt.Sprintf("the script imports %s, which Python does not find", strings.Join(modules, ", ")),
			Want:     "every package that the script imports, in the interpreter of the launch",
			WouldSee: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", modules[0]),
		}
		var known []fix.Requirement // only known packages, because a package index may have unrelated packages with the names of modules
		for _, module := range modules {
			name := cmp.Or(distributed[module], module)
			version := versionOf(nodes, name)
			if version != "" || distributed[module] != "" {
				known = append(known, fix.Requirement{Name: name, Version: version})
			}
		}
		f.Remedy = append(pip.Install(known), fix.On("%s -c 'import %s'", fix.Path(pip.Python), fix.List[fix.Module](", ", modules)).As(fix.Look))
		at := slices.IndexFunc(nodes, func(n *facts.Node) bool { return n.Name == lacking.Nodes[0] })
		if safe := ranks.Env(view, nodes[at]).Get("PYTHONSAFEPATH"); safe.Value != "" && known == nil {
			f.Got = ranks.Origin(view, safe) + ": Python does not search the directory of the script"
			f.Remedy = append(ranks.TakeOut(view, safe), f.Remedy...)
		}
		if typedWithPythonPath(view) {
			f.Verdict = checks.Warn
			f.WouldSee += ", unless PYTHONPATH is set where you type the command, as in this shell"
		}
		findings = append(findings, f)
	}
	return findings
}

// cannotImport returns the modules that the script needs and the node's Python does not find. It
// leaves out modules that another check reports.
func cannotImport(view checks.View, node *facts.Node) (modules []string) {
	script := ranks.ScriptAt(view.Launch, node)
	if script == nil || view.Launch.NoPython {
		return nil
	}
	for _, module := range script.Needs {
		told := module == "torch" || module == "deepspeed" || slices.Contains(view.Launch.Imports, module) || module == "mpi4py" && view.Launch.DiscoversMaster()
		if slices.Contains(node.Python.Unfound, module) && !told {
			modules = append(modules, module)
		}
	}
	return modules
}

// typedWithPythonPath reports whether a person types the command on every node. The PYTHONPATH of
// that person's shell may then differ from the agent's.
func typedWithPythonPath(view checks.View) bool {
	return view.Launch.Torchrun() && view.Head != nil && view.Head.Env != nil &&
		slices.ContainsFunc(view.Head.Env.Vars, func(s facts.Setting) bool { return s.Name == "PYTHONPATH" && s.Value != "" })
}

// distributed maps modules to their packages on PyPI if the names differ.
var distributed = map[string]string{
	"PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python", "dateutil": "python-dateutil", "dotenv": "python-dotenv", "flash_attn": "flash-attn",
	"hydra": "hydra-core", "skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "pyyaml",
}

// versionOf returns the version of a package that most nodes have, or "" if it is unknown.
func versionOf(nodes []*facts.Node, name string) string {
	have := compare.Without(nodes, func(n *facts.Node) bool { return n.Python.Packages[name] == "" })
	if len(have) == 0 {
		return ""
	}
	return compare.GroupBy(have, func(n *facts.Node) string { return n.Python.Packages[name] })[0].Value
}
