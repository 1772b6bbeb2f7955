package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
)

// changed is one finding for each thing that changed on a node, however many facts tell
// of it. When the machine is another one, that is the cause of everything.
func (b *Baseline) changed(view View, before, node *facts.Node) (findings []Finding) {
	changes := slices.DeleteFunc(changesOf(before, node), func(c Change) bool {
		return slices.Contains(notDrifting, sectionOf(c.Fact))
	})
	if slices.ContainsFunc(changes, isAnotherMachine) {
		f := changeFinding(node, changes)
		f.Summary = "another machine than the baseline's, under the same name"
		if former := b.who(idOf(node)); former != "" {
			f.Summary = "the machine that was " + former + " in the baseline is under this name"
		}
		f.Fix = []string{"{ssh} hostnamectl   # is it the machine that should be there?", b.anew(view)}
		return []Finding{f}
	}
	for _, t := range topicsOf(node) {
		var own []Change
		own, changes = parted(changes, func(c Change) bool { return t.facts.MatchString(c.Fact) })
		if own == nil {
			continue
		}
		f := changeFinding(node, own)
		f.Summary = t.what + " changed since the baseline"
		if t.back != nil {
			f.Fix = t.back(view, node, own)
		}
		f.Fix = append(f.Fix, b.anew(view))
		findings = append(findings, f)
	}
	return findings
}

// headChanged is what the launching machine launches with, where it is the same machine:
// one section, which changed or was not seen.
func (b *Baseline) headChanged(view View) []Finding {
	if changes := headChanges(b.Head, view.Head); changes != nil {
		f := changeFinding(view.Head, changes)
		f.Nodes, f.Summary, f.Fix = nil, "the launching machine changed since the baseline", []string{b.anew(view)}
		return []Finding{f}
	}
	if unseen := unseenOnHead(b.Head, view.Head); unseen != nil {
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

// mostToldChanges is how many facts of one cause are told.
const mostToldChanges = 8

// changeFinding is one with the facts before and after, the worst first and with its
// weight; that the machine is another one comes before all. A waiver has to
// cover all of those. Facts told apart by a number alone that changed alike are told once.
func changeFinding(node *facts.Node, changes []Change) Finding {
	bad, harmless := parted(changes, func(c Change) bool { return breaks(node, c) })
	f := Finding{Verdict: Warn, Nodes: []string{node.Name}}
	if bad != nil {
		f.Verdict = Fail
	}
	machine, harmless := parted(harmless, isAnotherMachine)
	changes = slices.Concat(machine, bad, harmless)
	f.Fact = changes[0].Fact
	weighty := slices.Concat(machine, bad)
	if weighty == nil {
		weighty = harmless
	}
	for _, c := range weighty {
		f.Facts = append(f.Facts, c.Fact)
	}
	var got, want []string
	alike := map[string]int{} // a change without its numbers → its place in got
	count := map[int]int{}
	for _, c := range changes {
		key := digits.ReplaceAllString(c.Fact, "0") + "\x00" + string(c.Before) + "\x00" + string(c.After)
		if at, seen := alike[key]; seen {
			count[at]++
			continue
		}
		alike[key] = len(got)
		now, then := inWords(c)
		got, want = append(got, c.Fact+" "+now), append(want, c.Fact+" "+then)
	}
	for at, more := range count {
		got[at] += fmt.Sprintf(" (and %d alike)", more)
		want[at] += fmt.Sprintf(" (and %d alike)", more)
	}
	f.Got, f.Want = shortList(got), shortList(want)
	return f
}

func shortList(parts []string) string {
	if more := len(parts) - mostToldChanges; more > 0 {
		parts = append(slices.Clone(parts[:mostToldChanges]), fmt.Sprintf("and %d more: preflight diff lists them", more))
	}
	return strings.Join(parts, ", ")
}
