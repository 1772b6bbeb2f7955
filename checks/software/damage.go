// SPDX-License-Identifier: Apache-2.0

package software

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
)

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
