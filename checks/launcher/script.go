// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"path"
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

var ScriptSame = checks.Check{
	ID:        "script-same",
	Severity:  checks.Error,
	Needs:     []facts.Section{facts.SectionFiles},
	DependsOn: []string{"workdir-present"},
	Volatile:  true,
	Run:       judgeScript,
}

// NoCommand is the reason why script-same examined nothing.
const NoCommand = "no launch command was given (preflight -- deepspeed …)"

func judgeScript(view checks.View) []checks.Finding {
	if view.Launch.Script == "" {
		return checks.Skipped(NoCommand)
	}
	nodes := ranks.Nodes(view)
	if len(nodes) == 1 && nodes[0].Files == nil { // the launching machine: Evaluate did not check whether it has the section
		return []checks.Finding{checks.UnknownFor(nodes[0], "files: "+compare.Shown(nodes[0].Missing[facts.SectionFiles]))}
	}
	findings := unqualified(view, nodes)
	explained := view.Found("workdir-present", checks.Fail, checks.Warn)
	for _, file := range view.Launch.Files {
		findings = append(findings, lackFile(view, nodes, file, explained)...)
		findings = append(findings, emptyData(view, nodes, file)...)
		findings = append(findings, unreadable(view, nodes, file)...)
	}
	findings = append(findings, scriptImports(view)...)
	compared := comparisons(view, nodes)
	if len(view.Launch.Files) == 0 && len(compared) == 0 {
		return checks.Skipped(fmt.Sprintf("%s is an installed program outside a repository: packages-same compares those", view.Launch.Script))
	}
	return append(findings, unlike(view, nodes, compared)...)
}

// isThere reports whether a machine has a file.
func isThere(machine *facts.Node, named facts.LaunchFile) bool {
	file := ranks.FileAt(machine, named)
	return file != nil && file.Exists
}

// shortName returns a path in the form in which the command most likely spells it.
func shortName(p launch.Prediction, file string) string {
	if below, isBelow := strings.CutPrefix(file, path.Clean(p.WorkDir)+"/"); isBelow && p.WorkDir != "" {
		return below
	}
	return file
}

// unqualified returns findings for a program of --no_python that is in the working directory but is
// named without a path. The ranks look for such a program only in PATH.
//
// Source: deepspeed/launcher/launch.py, main, 0.19.8, which passes the name to subprocess.Popen.
func unqualified(view checks.View, nodes []*facts.Node) []checks.Finding {
	script := view.Launch.Script
	if !view.Launch.NoPython || strings.Contains(script, "/") {
		return nil
	}
	named := facts.LaunchFile{Path: path.Join(view.Launch.WorkDir, script), Role: facts.RoleArgument}
	var findings []checks.Finding
	for _, node := range nodes {
		if !isThere(node, named) {
			continue
		}
		findings = append(findings, ranks.OfMachine(view, node, checks.Finding{
			Nodes:    []string{node.Name},
			Summary:  fmt.Sprintf("the ranks look for %s in PATH, not in the working directory", script),
			Want:     "./" + script,
			WouldSee: fmt.Sprintf("FileNotFoundError: [Errno 2] No such file or directory: '%s'", script),
			Remedy:   []fix.Command{fix.Here("deepspeed --no_python … %s …", fix.Path("./"+script))},
		}))
	}
	return findings
}

// unreadable returns findings for nodes whose file exists but cannot be used by the launch, or was
// not read by preflight.
func unreadable(view checks.View, nodes []*facts.Node, named facts.LaunchFile) []checks.Finding {
	var findings []checks.Finding
	look := []fix.Command{fix.On("namei -l %s", fix.Path(named.Path)).As(fix.Look)}
	for _, node := range nodes {
		f := checks.Finding{Remedy: look}
		switch file := ranks.FileAt(node, named); {
		case file == nil:
			findings = append(findings, checks.UnknownFor(node, "preflight did not check "+named.Path))
			continue
		case !file.Exists:
			continue
		case file.Problem == "permission denied":
			f.Summary = named.Path + " cannot be read"
			f.Got = file.Problem
			f.WouldSee = fmt.Sprintf("PermissionError: [Errno 13] Permission denied: '%s'", shortName(view.Launch, named.Path))
		case file.Problem != "":
			findings = append(findings, checks.UnknownFor(node, named.Path+": "+file.Problem))
			continue
		case named.Role == facts.RoleProgram && !file.Exec:
			f.Summary = named.Path + " is not executable"
			f.WouldSee = fmt.Sprintf("bash: %s: Permission denied", named.Path)
			f.Remedy = []fix.Command{fix.On("chmod +x %s", fix.Path(named.Path))}
		case named.Role == facts.RoleScript && view.Launch.NoPython && !file.Exec:
			f.Summary = named.Path + " is not executable, but --no_python runs it as a program"
			f.WouldSee = fmt.Sprintf("PermissionError: [Errno 13] Permission denied: '%s'", view.Launch.Script)
			f.Remedy = []fix.Command{fix.On("chmod +x %s", fix.Path(named.Path))}
		case named.Role == facts.RoleScript && !view.Launch.NoPython && node.Python != nil && node.Python.ScriptError != "":
			f.Summary = named.Path + " has a syntax error for the interpreter of the launch"
			f.Got = node.Python.ScriptError
			f.WouldSee = "SyntaxError: " + node.Python.ScriptError
			f.Remedy = []fix.Command{fix.On("%s -m py_compile %s", fix.Path(node.Python.Path), fix.Path(named.Path)).As(fix.Look)}
		default:
			continue
		}
		if named.Role == facts.RoleArgument {
			f.Verdict = checks.Warn
		}
		f.Nodes = []string{node.Name}
		findings = append(findings, ranks.OfMachine(view, node, f))
	}
	return findings
}

// lackFile returns findings for nodes that lack a file. It leaves out nodes that lack the whole
// directory.
func lackFile(view checks.View, nodes []*facts.Node, named facts.LaunchFile, explained map[string]bool) []checks.Finding {
	var lacking []*facts.Node
	have := 0
	for _, node := range nodes {
		switch file := ranks.FileAt(node, named); {
		case file == nil:
		case file.Exists:
			have++
		case named.Role == facts.RoleProgram && node.Python != nil && !node.Python.Found: // python-same reports the missing Python
		case !explained[node.Name]:
			lacking = append(lacking, node)
		}
	}
	if slices.ContainsFunc(view.Launch.Places, func(p facts.LaunchFile) bool { return p.Path == named.Path }) {
		return nil // data-shared reports the missing file
	}
	onHead := isThere(view.Head, named)
	_, headIsNode := ranks.HeadNode(view)
	isRead := view.Launch.Reads(named)
	if named.Role == facts.RoleArgument && (!isRead || have == 0 && !onHead) && (!onHead || headIsNode) && 2*have <= len(nodes) {
		return nil // the file is an output that does not exist yet, or that rank 0 wrote
	}
	want := "a path that exists"
	switch {
	case onHead && !view.Launch.Local:
		want = "the file of the launching machine"
	case have > 0:
		want = "the file of the other nodes"
	}
	var findings []checks.Finding
	for _, node := range lacking {
		f := checks.Finding{
			Summary:  named.Path + " does not exist",
			Got:      ranks.FileAt(node, named).Problem,
			Want:     want,
			WouldSee: missingError(view, named),
			Remedy:   bringFile(view, nodes, named),
			Covers:   []string{"files.files." + named.Path, "files.sources", "files.repository"},
		}
		if named.Role == facts.RoleArgument && !(isRead && comesFromOutside(view, nodes, named)) {
			f.Verdict = checks.Warn
		}
		f.Nodes = []string{node.Name}
		findings = append(findings, ranks.OfMachine(view, node, f))
	}
	return findings
}

// emptyData returns the finding for nodes on which a directory of data is empty although other nodes
// have files there. Most likely nothing is mounted on these nodes.
func emptyData(view checks.View, nodes []*facts.Node, named facts.LaunchFile) []checks.Finding {
	filled := func(n *facts.Node) bool {
		file := ranks.FileAt(n, named)
		return file != nil && file.Kind == "directory" && !file.Empty && file.Problem == ""
	}
	empty := compare.Without(nodes, func(n *facts.Node) bool { return ranks.FileAt(n, named) == nil || !ranks.FileAt(n, named).Empty })
	from := compare.Without(nodes, func(n *facts.Node) bool { return !filled(n) })
	if len(empty) == 0 || len(from) == 0 || !view.Launch.Reads(named) {
		return nil
	}
	f := checks.Finding{
		Nodes: checks.NamesOf(empty), Summary: named.Path + " is empty", Got: "a directory without files",
		Want:     "the files of " + hostfile.Fold(checks.NamesOf(from)),
		WouldSee: fmt.Sprintf("FileNotFoundError: [Errno 2] No such file or directory: '%s/…', or ValueError: num_samples should be a positive integer value, but got num_samples=0", named.Path),
		Remedy: []fix.Command{
			fix.On("findmnt -T %s", fix.Path(named.Path)).At(from[0].Name).As(fix.Look),
			fix.On("findmnt -T %s; grep -n %[1]s /etc/fstab", fix.Path(named.Path)).As(fix.Look),
			fix.Note("mount the share there as on %s, or copy the data", fix.Text(from[0].Name)),
		},
	}
	if !comesFromOutside(view, nodes, named) {
		f.Verdict = checks.Warn
	}
	return []checks.Finding{f}
}

// comesFromOutside reports whether a script does not itself make what it reads at a path. It may
// download a directory of data, such as torchvision's MNIST, but no file that it is told to read.
func comesFromOutside(view checks.View, nodes []*facts.Node, named facts.LaunchFile) bool {
	return !slices.ContainsFunc(append([]*facts.Node{view.Head}, nodes...), func(machine *facts.Node) bool {
		file, script := ranks.FileAt(machine, named), ranks.ScriptAt(view.Launch, machine)
		return file != nil && file.Exists && file.Kind != "file" && (script == nil || !script.WritesNothing)
	})
}

// missingError returns the error of a rank that does not find a file. Source:
// deepspeed/runtime/config.py, DeepSpeedConfig, 0.9.5 to 0.19.8.
func missingError(view checks.View, named facts.LaunchFile) string {
	name := shortName(view.Launch, named.Path)
	switch {
	case named.Role == facts.RoleConfig:
		return "ValueError: Expected a string path to an existing deepspeed config, or a dictionary or a valid base64. Received: " + name
	case named.Role == facts.RoleVenv:
		return fmt.Sprintf("bash: line 1: %s: No such file or directory, and the ranks run without that environment", name)
	case named.Role == facts.RoleProgram:
		return fmt.Sprintf("bash: %s: No such file or directory, when you type the command", named.Path)
	case named.Role == facts.RoleArgument:
		return fmt.Sprintf("FileNotFoundError: [Errno 2] No such file or directory: '%s', when a rank of the node opens it", name)
	case view.Launch.NoPython:
		return fmt.Sprintf("FileNotFoundError: [Errno 2] No such file or directory: '%s'", name)
	}
	return fmt.Sprintf("can't open file '%s': [Errno 2] No such file or directory", named.Path)
}

// bringFile returns the commands that copy a file to {nodes}. The source is the launching machine,
// or a node that has the file.
func bringFile(view checks.View, nodes []*facts.Node, named facts.LaunchFile) []fix.Command {
	file, from := ranks.FileAt(view.Head, named), (*facts.Node)(nil)
	for _, node := range nodes {
		if isThere(node, named) {
			from = node
		}
	}
	if !isThere(view.Head, named) {
		file = ranks.FileAt(from, named)
	}
	if file == nil {
		return []fix.Command{fix.On("ls -la %s", fix.Path(path.Dir(named.Path))).As(fix.Look)}
	}
	name := named.Path
	if file.Kind == "directory" {
		if named.Role == facts.RoleArgument || isShared(view, name) {
			return []fix.Command{fix.On("ls -la %s", fix.Path(path.Dir(name))).As(fix.Look)} // data and checkpoints may be huge, so preflight suggests no copy
		}
		name += "/"
	}
	commands := []fix.Command{fix.On("mkdir -p %s", fix.Path(path.Dir(named.Path)))}
	if isThere(view.Head, named) {
		return append(commands, fix.CopyTo(name).As(fix.Then))
	}
	return append(commands, fix.CopyFrom(from.Name, name).As(fix.Then))
}

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
