// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"cmp"
	"slices"

	"preflight/facts"
	"preflight/internal/text"
)

// NotCompared is a section of a node that only one of two runs saw. A change in such a section
// would not show.
type NotCompared struct {
	Node    string        `json:"node"`    // the node's name in the later run
	Section facts.Section `json:"section"` // the section, "" for a node that neither run reached
	Reason  string        `json:"reason"`  // why one run did not see the section
	Earlier bool          `json:"earlier"` // whether it was the earlier run that did not see the section
	// ByChoice means that the run did not collect the section on purpose, and that nothing known
	// from the other run is hidden.
	ByChoice bool `json:"by_choice"`
}

// Unseen returns what [Changes] could not compare, node by node in the order of the later run, the
// launching machine last. It leaves out nodes that were added, removed or reached only once,
// because Changes returns those.
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

// unseenOf returns the sections of a node that only one of two runs saw. A section that the earlier
// run left out counts as a choice. In the later run, leaving out a section hides what was known. It
// then counts as a choice only for the compilers, which only some launches need.
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

// unrecorded returns the facts of a section that only one of two saved runs records. The other run
// was saved by an older release, so no value has changed.
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

// unseenOnHead returns what could not be compared about the launchers of the launching machine. It
// returns nothing if the two runs used different launching machines.
func unseenOnHead(before, after *facts.Node) []NotCompared {
	if !sameMachine(before, after) {
		return nil
	}
	return slices.DeleteFunc(unseenOf(before, after, nil, nil), func(u NotCompared) bool { return u.Section != facts.SectionLauncher })
}
