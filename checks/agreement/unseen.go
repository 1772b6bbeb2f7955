// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"cmp"
	"slices"

	"preflight/facts"
	"preflight/internal/text"
)

// NotCompared is a section of a node that only one of two runs saw, so that a change would not
// show.
type NotCompared struct {
	Node    string        `json:"node"`    // its name in the later run
	Section facts.Section `json:"section"` // "" for a node that neither run reached
	Reason  string        `json:"reason"`  // why it was not seen
	Earlier bool          `json:"earlier"` // the earlier run did not see it
	// ByChoice means that the run did not collect the section on purpose, and that this hides
	// nothing that was known before.
	ByChoice bool `json:"by_choice"`
}

// Unseen returns what [Changes] could not compare, node by node in the order of the later run, the
// launching machine last. Nodes that came, went or were reached only once are in Changes instead.
func Unseen(before, after facts.Fleet) []NotCompared {
	all := []NotCompared{}
	was := earlier(before.Nodes, after.Nodes)
	for i := range after.Nodes {
		node := &after.Nodes[i]
		old := was[node.Name]
		switch {
		case old == nil, standing(old) != standing(node):
		case !node.Reached:
			all = append(all, NotCompared{Node: node.Name, Reason: standing(node) + ", now and before"})
		default:
			all = append(all, unseenOf(old, node, before.NotTried, after.NotTried)...)
		}
	}
	return append(all, unseenOnHead(before.Head, after.Head)...)
}

// unseenOf returns the sections of a node that only one of two runs saw. A section that was left
// out counts as a choice in the earlier run, and for compilers, which only some launches need. In
// the later run it hides what was known.
func unseenOf(was, is *facts.Node, notTriedThen, notTriedNow map[facts.Section]string) (unseen []NotCompared) {
	for _, section := range facts.Sections() {
		if slices.Contains(facts.Momentary, section) || !was.Has(section) && !is.Has(section) {
			continue
		}
		if was.Has(section) && is.Has(section) {
			unseen = append(unseen, unrecorded(was, is, section)...)
			continue
		}
		u := NotCompared{Node: is.Name, Section: section, Earlier: is.Has(section)}
		missing, notTried := is.Missing, notTriedNow
		if u.Earlier {
			missing, notTried = was.Missing, notTriedThen
		}
		_, chosen := notTried[section]
		u.ByChoice = chosen && (u.Earlier || section == facts.SectionToolchain)
		u.Reason = cmp.Or(missing[section], notTried[section], "not checked")
		unseen = append(unseen, u)
	}
	return unseen
}

// unrecorded returns the facts of a section that only one of two files records. The other one comes
// from an older release, and no value has changed.
func unrecorded(was, is *facts.Node, section facts.Section) (unseen []NotCompared) {
	for _, side := range []struct {
		lacks, has *facts.Node
		earlier    bool
	}{{was, is, true}, {is, was, false}} {
		if side.lacks.Unrecorded == nil {
			continue
		}
		values := valuesOf(side.has, side.lacks, section)
		var paths []string
		for lacking := range side.lacks.Unrecorded {
			for path := range values {
				if facts.Covers(lacking, path) {
					paths = append(paths, lacking)
					break
				}
			}
		}
		if paths != nil {
			slices.Sort(paths)
			unseen = append(unseen, NotCompared{Node: is.Name, Section: section, Reason: text.List(paths) + " not recorded", Earlier: side.earlier, ByChoice: true})
		}
	}
	return unseen
}

// unseenOnHead returns the same for the launchers of the launching machine, if it is the same
// machine.
func unseenOnHead(before, after *facts.Node) []NotCompared {
	if !sameMachine(before, after) {
		return nil
	}
	return slices.DeleteFunc(unseenOf(before, after, nil, nil), func(u NotCompared) bool { return u.Section != facts.SectionLauncher })
}
