// SPDX-License-Identifier: Apache-2.0

package software

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
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
		if variable == "TORCH_LOGS" {
			f.Want = "a value that torch accepts: TORCH_LOGS=help lists them"
		}
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

// lacksRequirements returns a finding for a node that has a package but lacks modules that the
// package imports.
func lacksRequirements(view checks.View, node *facts.Node, of string) []checks.Finding {
	version := node.Python.Packages[of]
	var missing, late []launch.Requirement
	for _, r := range launch.Requirements {
		switch {
		case r.Of != of || version == "" || !hostfile.Within(version, r.Since, r.Until) || !slices.Contains(node.Python.Unfound, r.Module):
		case r.Late != "":
			late = append(late, r)
		default:
			missing = append(missing, r)
		}
	}
	lacks := cmp.Or(len(missing), len(late)) // the launch ends before it imports the late modules
	if lacks == 0 {
		return nil
	}
	var modules, distributions []string
	for _, r := range append(missing, late...) {
		modules, distributions = append(modules, r.Module), append(distributions, r.Distribution)
	}
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Verdict:  checks.Fail,
		Summary:  fmt.Sprintf("%s cannot be imported without %s", of, strings.Join(distributions[:lacks], ", ")),
		Got:      of + " " + version,
		WouldSee: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", modules[0]),
		Remedy: []fix.Command{
			remedy.Pip(view).Run("install %s", fix.List[fix.Name](" ", distributions)),
			remedy.Pip(view).Run("install --force-reinstall --no-deps %s", fix.List[fix.Name](" ", distributions)).Remark("if pip calls them already satisfied, because only their files are gone").As(fix.Or),
		},
	}
	if missing == nil {
		f.Verdict = checks.Warn
		f.Summary = fmt.Sprintf("%s needs %s, which it imports %s", of, strings.Join(distributions, ", "), late[0].Late)
		f.WouldSee += ", unless the script creates none"
	}
	return []checks.Finding{f}
}

// damaged returns a finding for each node on which a module needs packages that are not whole. If
// the module can be imported all the same, nodes count only if they differ from others: an image
// may lack files on purpose.
func damaged(view checks.View, nodes []*facts.Node, module string) (findings []checks.Finding) {
	for _, node := range nodes {
		var on []facts.Damage
		for _, d := range node.Python.Damaged {
			everywhere := !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return !reflect.DeepEqual(damageOf(n, d.Package), d) })
			if d.Module == module && !(d.Imported && everywhere) {
				on = append(on, d)
			}
		}
		if on != nil {
			findings = append(findings, damagedOn(view, nodes, node, on))
		}
	}
	return findings
}

func damageOf(node *facts.Node, name string) facts.Damage {
	for _, d := range node.Python.Damaged {
		if d.Package == name {
			return d
		}
	}
	return facts.Damage{}
}

// damagedOn returns the finding for the damaged packages that one module of a node needs.
func damagedOn(view checks.View, nodes []*facts.Node, node *facts.Node, on []facts.Damage) checks.Finding {
	var names, files []string
	var reinstall []fix.Requirement
	count, refused := 0, false
	for _, d := range on {
		names = append(names, d.Package)
		reinstall = append(reinstall, fix.Requirement{Name: d.Package, Version: d.Version})
		count += d.Count
		for _, f := range d.Files {
			files = append(files, describe(f))
			refused = refused || f.Problem == "permission denied"
		}
	}
	most := min(len(files), 3)
	got := strings.Join(files[:most], ", ")
	if count > most {
		got += fmt.Sprintf(", and %d more", count-most)
	}
	f := checks.Finding{
		Nodes: []string{node.Name}, Got: got,
		Summary:  "damaged installation of " + shortList(names),
		Want:     "every file that pip recorded, with its size",
		WouldSee: on[0].Import,
	}
	switch {
	case on[0].Imported:
		f.Verdict = checks.Warn
		f.WouldSee = "nothing, until the launch uses one of these files"
	case on[0].Import == "": // the import takes long on a slow file system
		f.WouldSee = fmt.Sprintf("ImportError, SyntaxError or Bus error at the import of %s", on[0].Module)
	}
	pip := remedy.Pip(view)
	pip.Again = true
	install := pip.Install(reinstall)
	if refused {
		install = []fix.Command{fix.On("sudo chmod -R a+rX %s", fix.Path(path.Join(on[0].Dir, top(on[0])))).Inside()}
	}
	f.Remedy = fix.Steps(install...)
	whole := slices.IndexFunc(nodes, func(n *facts.Node) bool { return isWhole(n, node, on[0]) })
	if whole >= 0 && len(on) == 1 && !refused && strings.Contains(on[0].Files[0].Path, "/") {
		f.Remedy = fix.Alternatives(install[0], fix.CopyFrom(nodes[whole].Name, path.Join(on[0].Dir, top(on[0]))+"/"))
	}
	return f
}

// isWhole reports whether another node has the same release of a package in the same directory, and
// undamaged.
func isWhole(n, damaged *facts.Node, d facts.Damage) bool {
	return n != damaged && n.Python.Packages[d.Package] == d.Version && damageOf(n, d.Package).Count == 0 &&
		slices.Contains(n.Python.SysPath, d.Dir)
}

// top returns the directory of a package that contains its first damaged file.
func top(d facts.Damage) string {
	first, _, _ := strings.Cut(d.Files[0].Path, "/")
	return first
}

// describe returns what is wrong with a file.
func describe(f facts.DamagedFile) string {
	if f.Problem != "" {
		return compare.Shown(f.Path) + ": " + f.Problem
	}
	return fmt.Sprintf("%s has %s of %s", compare.Shown(f.Path), humanize.IBytes(uint64(f.Size)), humanize.IBytes(uint64(f.Recorded)))
}

// shortList joins the first names of a list.
func shortList(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more packages", strings.Join(names[:2], ", "), len(names)-2)
	}
	return strings.Join(names, ", ")
}

// uncompared warns about nodes whose packages are on a file system that is too slow to compare.
func uncompared(nodes []*facts.Node) (findings []checks.Finding) {
	for _, node := range nodes {
		if node.Python.Uncompared != "" {
			findings = append(findings, checks.Finding{
				Verdict: checks.Warn, Nodes: []string{node.Name}, Summary: "not all files of the installed packages could be compared with pip's record",
				Got: node.Python.Uncompared, Want: "some hundred files examined in 2 s", WouldSee: "a slow start: every rank reads some thousand files there",
				Remedy: []fix.Command{fix.On("time %s -c 'import torch'", fix.Path(node.Python.Path)).As(fix.Look)},
			})
		}
	}
	return findings
}
