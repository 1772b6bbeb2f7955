package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// changed is one finding for each thing that changed on a node, however many facts tell
// of it. When the machine is another one, that is the cause of everything.
func (b baseline) changed(view View, before, node *facts.Node) (findings []Finding) {
	changes := slices.DeleteFunc(changesOf(before, node), func(c Change) bool {
		return slices.Contains(facts.Momentary, sectionOf(c.Fact))
	})
	if slices.ContainsFunc(changes, isAnotherMachine) {
		f := b.finding(node, changes)
		f.Summary = "another machine than the baseline's, under the same name"
		if former := b.who(idOf(node)); former != "" {
			f.Summary = "the machine that was " + former + " in the baseline is under this name"
		}
		f.Remedy = slices.Concat([]fix.Command{fix.On("hostnamectl   # is it the machine that should be there?")}, f.Remedy, []fix.Command{b.anew(view)})
		return []Finding{f}
	}
	for _, t := range topicsOf(node) {
		var own []Change
		own, changes = parted(changes, func(c Change) bool { return t.facts.MatchString(c.Fact) })
		if own == nil {
			continue
		}
		f := b.finding(node, own)
		f.Summary = t.what + " changed since the baseline"
		if t.back != nil {
			f.Remedy = append(t.back(deed{view, before, node, own}), f.Remedy...)
		}
		f.Remedy = append(slices.Concat(f.Remedy, t.explained(view, node)), b.anew(view))
		findings = append(findings, f)
	}
	return findings
}

// headChanged is what the launching machine launches with, where it is the same machine:
// one section, which changed or was not seen.
func (b baseline) headChanged(view View) []Finding {
	if changes := headChanges(b.Head, view.Head); len(changes) > 0 {
		f := b.finding(view.Head, changes)
		f.Nodes, f.Summary, f.Remedy = nil, "the launching machine changed since the baseline", append(f.Remedy, b.anew(view))
		return []Finding{f}
	}
	if unseen := unseenOnHead(b.Head, view.Head); len(unseen) > 0 {
		u := unseen[0]
		told := fmt.Sprintf("launching machine: %s: %s", u.Section, u.Reason)
		if u.Earlier {
			told = "the baseline has not seen this of the " + told
		}
		return []Finding{{Verdict: Unknown, Summary: told}}
	}
	return nil
}

// isAnotherMachine tells by the machine id, where both looks saw one.
func isAnotherMachine(c Change) bool { return c.Fact == machineID && !c.came() && !c.gone() }

// parted takes those changes out that belong together.
func parted(changes []Change, belongs func(Change) bool) (own, rest []Change) {
	for _, c := range changes {
		if belongs(c) {
			own = append(own, c)
		} else {
			rest = append(rest, c)
		}
	}
	return own, rest
}
