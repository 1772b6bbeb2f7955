// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"fmt"
	"slices"
	"strconv"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
)

// What is compared beside the files that are named.
const (
	sourcesAspect = "python files beside it"
	commitAspect  = "commit"
	dirtyAspect   = "files changed since the commit"
)

// comparisons are what must be the same on the nodes, and on the launching
// machine where that has it.
func comparisons(view checks.View, nodes []*facts.Node) []compare.Comparison {
	var all []compare.Comparison
	for _, named := range view.Launch.Files {
		if named.Role == facts.RoleProgram { // pip writes it, on each node its own
			continue
		}
		contentsOf := func(n *facts.Node) string { return contents(ranks.FileAt(n, named)) }
		all = append(all, compare.Among(nil, shortName(view.Launch, named.Path), contentsOf))
	}
	all = append(all, compare.Among(nil, sourcesAspect, sourcesOf), compare.Among(nil, commitAspect, commitOf), compare.Among(nil, dirtyAspect, dirtyOf))
	for i := range all {
		c := &all[i]
		if view.Head != nil {
			c.Want = c.Value(view.Head)
		}
		c.Among = compare.Without(nodes, func(n *facts.Node) bool { return c.Value(n) == "" })
	}
	return slices.DeleteFunc(all, func(c compare.Comparison) bool { return len(c.Among) == 0 })
}

// contents is what tells a file from another, "" where nothing was read.
func contents(file *facts.File) string {
	switch {
	case file == nil || !file.Exists || file.Problem != "":
		return ""
	case file.Kind != "file":
		return "a " + file.Kind
	case file.Digest == "":
		return fmt.Sprintf("%d bytes", file.Size)
	}
	return "sha256 " + short(file.Digest)
}

// sourcesOf is "" where not every file was read: what was is chance.
func sourcesOf(node *facts.Node) string {
	if seen := sourcesSeen(node); seen != nil && seen.Problem == "" {
		return short(seen.Digest)
	}
	return ""
}

// repositoryOf is the one around the script, the zero value where none was seen.
func repositoryOf(node *facts.Node) facts.Repository {
	if node.Files == nil || node.Files.Repository == nil {
		return facts.Repository{}
	}
	return *node.Files.Repository
}

func commitOf(node *facts.Node) string { return short(repositoryOf(node).Commit) }

func dirtyOf(node *facts.Node) string {
	if changed := repositoryOf(node).Dirty; changed != nil {
		return strconv.Itoa(*changed)
	}
	return ""
}

// short is as much of a digest as tells it from others.
func short(digest string) string { return digest[:min(len(digest), 10)] }

// unlike is the nodes that have something else than is meant. Another script,
// other files beside it and another commit on the same nodes are one cause.
func unlike(view checks.View, nodes []*facts.Node, compared []compare.Comparison) []checks.Finding {
	var findings []checks.Finding
	for _, d := range compare.Differences(compared...) {
		w := wording{view, compared, d.Deviations}
		f := checks.Finding{Nodes: d.Nodes, Remedy: []fix.Command{w.look()}}
		f.Verdict, f.WouldSee = w.weight()
		if d.Split {
			_, what, differ := w.what()
			f.Summary = fmt.Sprintf("%s %s between the nodes, and no version has a majority", what, differ)
			f.Got, f.Want = d.Finding("").Got, "one version everywhere"
			if view.Head != nil && w.isRight(view.Head) {
				f.Remedy = w.copies(nodes, view.Head, fix.CopyTo)
			}
		} else {
			w.blame(&f, nodes)
		}
		findings = append(findings, f)
	}
	return append(findings, unlikeHead(view, compared)...)
}

// blame says what is right, who has it, and how the nodes of a finding get it.
func (w wording) blame(f *checks.Finding, nodes []*facts.Node) {
	has := compare.Without(nodes, func(n *facts.Node) bool { return !slices.Contains(f.Nodes, n.Name) })
	odd := has[0]
	whose := "on most nodes"
	right := w.rightOne(nodes)
	if right != nil {
		f.Got = w.beside(odd, right)
		f.Remedy = w.copies(has, right, func(path string) fix.Command { return fix.CopyFrom(right.Name, path) })
	}
	if right != nil && right == w.view.Head {
		whose = "on the launching machine"
		f.Remedy = w.copies(has, right, fix.CopyTo)
	}
	other, what, _ := w.what()
	f.Summary = fmt.Sprintf("%s %s than %s", other, what, whose)
	got, want := w.values()
	f.Got, f.Want = join(got, f.Got), join(want, "as "+whose)
}

// unlikeHead warns where the nodes agree on something that the launching machine
// has in another version: they run what nobody is looking at.
func unlikeHead(view checks.View, compared []compare.Comparison) []checks.Finding {
	w := wording{view: view, compared: compared}
	var odd *facts.Node
	for _, c := range compared {
		groups := compare.GroupBy(c.Among, c.Value)
		if len(groups) > 1 || c.Want == "" || groups[0].Value == c.Want || c.Name == dirtyAspect || fileOf(view, c.Name).Role == facts.RoleArgument {
			continue
		}
		w.deviations = append(w.deviations, compare.Deviation{Name: c.Name, Got: groups[0].Value, Want: c.Want})
		if odd == nil || c.Name == sourcesAspect {
			odd = c.Among[0]
		}
	}
	if w.deviations == nil {
		return nil
	}
	beside := w.beside(odd, view.Head)
	other, what, _ := w.what()
	got, want := w.values()
	commands := w.copies(view.Nodes, view.Head, fix.CopyTo)
	for i := range commands { // the finding is the launching machine's
		commands[i] = commands[i].At(launch.HostNames(view.Launch.Hosts)...)
	}
	return []checks.Finding{{
		Verdict:  checks.Warn,
		Nodes:    []string{view.Head.Name},
		Summary:  fmt.Sprintf("the nodes have %s %s than the machine it is launched from", other, what),
		Got:      join(got, beside, "on every node"),
		Want:     join(want, "as on the launching machine"),
		Remedy:   commands,
		WouldSee: "training with what the nodes have: changes made here have no effect",
	}}
}
