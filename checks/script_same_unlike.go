package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// unlike is the nodes that have something else than is meant. Another script,
// other files beside it and another commit on the same nodes are one cause.
func unlike(view View, nodes []*facts.Node, compared []comparison) []Finding {
	var findings []Finding
	for _, d := range compare(compared...) {
		w := wording{view, compared, d.Deviations}
		f := Finding{Nodes: d.Nodes, Remedy: []fix.Command{w.look()}}
		f.Verdict, f.WouldSee = w.weight()
		if d.Split {
			_, what, differ := w.what()
			f.Summary = fmt.Sprintf("%s %s between the nodes, and no version has a majority", what, differ)
			f.Got, f.Want = d.finding("").Got, "one version everywhere"
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
func (w wording) blame(f *Finding, nodes []*facts.Node) {
	has := slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return !slices.Contains(f.Nodes, n.Name) })
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
	f.Got = join(w.values(func(d deviation) string { return d.Got }), f.Got)
	f.Want = join(w.values(func(d deviation) string { return d.Want }), "as "+whose)
}

// unlikeHead warns where the nodes agree on something that the launching machine
// has in another version: they run what nobody is looking at.
func unlikeHead(view View, compared []comparison) []Finding {
	w := wording{view: view, compared: compared}
	var odd *facts.Node
	for _, c := range compared {
		groups := groupBy(c.Among, c.Value)
		if len(groups) > 1 || c.Want == "" || groups[0].Value == c.Want || c.Name == dirtyAspect || roleOf(view, c.Name) == facts.RoleArgument {
			continue
		}
		w.deviations = append(w.deviations, deviation{Name: c.Name, Got: groups[0].Value, Want: c.Want})
		if odd == nil || c.Name == sourcesAspect {
			odd = c.Among[0]
		}
	}
	if w.deviations == nil {
		return nil
	}
	beside := w.beside(odd, view.Head)
	other, what, _ := w.what()
	commands := w.copies(view.Nodes, view.Head, fix.CopyTo)
	for i := range commands { // the finding is the launching machine's
		commands[i] = commands[i].At(hostNamesOf(view)...)
	}
	return []Finding{{
		Verdict:  Warn,
		Nodes:    []string{view.Head.Name},
		Summary:  fmt.Sprintf("the nodes have %s %s than the machine it is launched from", other, what),
		Got:      join(w.values(func(d deviation) string { return d.Got }), beside, "on every node"),
		Want:     join(w.values(func(d deviation) string { return d.Want }), "as on the launching machine"),
		Remedy:   commands,
		WouldSee: "training with what the nodes have: changes made here have no effect",
	}}
}
