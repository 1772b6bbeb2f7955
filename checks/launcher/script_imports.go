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

// scriptImports are of nodes whose python does not find what the script imports.
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
		var known []fix.Requirement // an index may have others by the names of modules
		for _, module := range modules {
			name := cmp.Or(distributed[module], module)
			version := versionOf(nodes, name)
			if version != "" || distributed[module] != "" {
				known = append(known, fix.Requirement{Name: name, Version: version})
			}
		}
		f.Remedy = append(pip.Install(known), fix.On("%s -c 'import %s'", fix.Path(pip.Python), fix.List[fix.Module](", ", modules)).As(fix.Look))
		if typedWithPythonPath(view) {
			f.Verdict = checks.Warn
			f.WouldSee += ", unless PYTHONPATH is set where you type the command, as in this shell"
		}
		findings = append(findings, f)
	}
	return findings
}

// cannotImport are the modules that the script needs to find, and that a node's python does
// not; not those of which another check tells.
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

// typedWithPythonPath is whether the command is typed on every node, by a shell that may
// have another PYTHONPATH than the one that looked.
func typedWithPythonPath(view checks.View) bool {
	return view.Launch.Torchrun() && view.Head != nil && view.Head.Env != nil &&
		slices.ContainsFunc(view.Head.Env.Vars, func(s facts.Setting) bool { return s.Name == "PYTHONPATH" && s.Value != "" })
}

// distributed are the packages on the index that modules of other names are of.
var distributed = map[string]string{
	"PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python", "dateutil": "python-dateutil", "dotenv": "python-dotenv", "flash_attn": "flash-attn",
	"hydra": "hydra-core", "skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "pyyaml",
}

// versionOf is the version of a package that most nodes have, "" where it is not known.
func versionOf(nodes []*facts.Node, name string) string {
	have := compare.Without(nodes, func(n *facts.Node) bool { return n.Python.Packages[name] == "" })
	if len(have) == 0 {
		return ""
	}
	return compare.GroupBy(have, func(n *facts.Node) string { return n.Python.Packages[name] })[0].Value
}
