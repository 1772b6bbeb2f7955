// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// Attempt is one node's try to get through to another.
type Attempt struct {
	From, To string
	Failed   bool
	How      string       // what became of it, "" when it passed
	Path     *facts.Path  // the call, where it was one that failed
	Login    *facts.Login // the login, where it was one that failed

	place, from, to int // its own among all attempts, and those of its ends in the hostfile
}

// suspicion is the kind of place where a cause must be.
type suspicion int

const (
	Everywhere suspicion = iota // nothing passes between any two of the nodes
	Between                     // nothing passes between groups of nodes
	Inbound                     // on the way into the nodes
	Outbound                    // on the way out of them
	BothWays                    // on both
	Directions                  // between single nodes
)

// Suspect explains attempts that failed.
type Suspect struct {
	Kind  suspicion
	How   string     // what became of most of its attempts
	Nodes []string   // whom it is about, in hostfile order
	Sets  [][]string // of Between: the groups, the largest first
	// All is whether nothing passed to or from the nodes at all; else Peers
	// are those with whom it failed.
	All    bool
	Peers  []string
	Failed []Attempt
}

// Words holds two texts about suspects of each kind. The first is for a suspect to which nothing passed, or for several
// directions. The second has a %s: for the peers with whom it failed, for the one direction, or for the groups.
type Words [Directions + 1][2]string

// Sentence returns the text about this suspect.
func (s Suspect) Sentence(words Words) string {
	all, some := words[s.Kind][0], words[s.Kind][1]
	names := hostfile.Fold(s.Peers)
	switch {
	case s.Kind == Between:
		names = foldSets(s.Sets)
	case s.Kind == Directions:
		lines := Arrows(s.Failed)
		if len(lines) > 1 {
			return all
		}
		names = lines[0]
	case s.Kind == Everywhere, s.All:
		return all
	}
	return strings.Replace(some, "%s", names, 1) // what else the text holds, as an interface's name, is no format
}

// Suspects explains all failed attempts by few suspects, in time linear in the
// attempts. names are all nodes in hostfile order; a node's tries at itself are
// not for here.
//
// An attempt is blamed on the end that fails in the larger share of its
// attempts of that direction. A node whose firewall drops fails in all of them
// as callee, its callers each in one of many. Where both ends fail alike, it is
// blamed on what is blamed already, else on the direction.
func Suspects(names []string, attempts []Attempt) []Suspect {
	a := newAttribution(names, attempts)
	if len(a.open) == 0 {
		return nil
	}
	if a.nothingPasses() {
		return []Suspect{a.suspect(Everywhere, ends(a.open), a.open)}
	}
	return append(a.partitions(), a.blame()...)
}

// attribution is the state of one search for suspects. Nodes are numbers here: their
// places in the hostfile.
type attribution struct {
	names    []string
	attempts []Attempt
	open     []Attempt // those that failed and that nothing explains yet
}

func newAttribution(names []string, attempts []Attempt) *attribution {
	at := make(map[string]int, len(names))
	for i, name := range names {
		at[name] = i
	}
	a := &attribution{names: names, attempts: slices.Clone(attempts)}
	for i := range a.attempts {
		each := &a.attempts[i]
		each.place, each.from, each.to = i, at[each.From], at[each.To]
		if each.Failed {
			a.open = append(a.open, *each)
		}
	}
	return a
}

// nothingPasses is whether every node failed as caller and as callee in all it tried.
func (a *attribution) nothingPasses() bool {
	calls, called := map[int]bool{}, map[int]bool{}
	for _, each := range a.attempts {
		calls[each.from], called[each.to] = true, true
	}
	return len(a.open) == len(a.attempts) && maps.Equal(calls, called)
}

// partitions finds groups of two and more nodes within which something passes and
// between which nothing does, and takes what fails between them off the open
// attempts. Of nodes that are cut off alone, their own attempts tell more.
func (a *attribution) partitions() []Suspect {
	leader := make([]int, len(a.names))
	for i := range leader {
		leader[i] = i
	}
	find := func(i int) int {
		for leader[i] != i {
			leader[i] = leader[leader[i]]
			i = leader[i]
		}
		return i
	}
	for _, each := range a.attempts {
		if !each.Failed {
			leader[find(each.from)] = find(each.to)
		}
	}
	members := map[int][]int{}
	for node := range leader {
		members[find(node)] = append(members[find(node)], node)
	}
	var across, rest []Attempt
	partitioned := map[int]bool{}
	for _, each := range a.open {
		from, to := find(each.from), find(each.to)
		if from == to || len(members[from]) < 2 || len(members[to]) < 2 {
			rest = append(rest, each)
			continue
		}
		across = append(across, each)
		partitioned[from], partitioned[to] = true, true
	}
	if len(across) == 0 {
		return nil
	}
	a.open = rest
	var nodes []int
	var sets [][]string
	for group := range partitioned {
		nodes = append(nodes, members[group]...)
		sets = append(sets, a.namesOf(members[group]))
	}
	slices.SortFunc(sets, func(a, b []string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(hostfile.Fold(a), hostfile.Fold(b)))
	})
	s := a.suspect(Between, nodes, across)
	s.Sets = sets
	return []Suspect{s}
}

// suspect puts nodes and the attempts they explain together.
func (a *attribution) suspect(kind suspicion, nodes []int, failed []Attempt) Suspect {
	count := map[string]int{}
	for _, each := range failed {
		count[each.How]++
	}
	how := ""
	for _, each := range slices.Sorted(maps.Keys(count)) {
		if count[each] > count[how] {
			how = each
		}
	}
	return Suspect{Kind: kind, How: how, Nodes: a.namesOf(nodes), Failed: failed}
}

// ends are the nodes at both ends of attempts.
func ends(attempts []Attempt) []int {
	var nodes []int
	for _, each := range attempts {
		nodes = append(nodes, each.from, each.to)
	}
	return nodes
}

// namesOf is nodes in hostfile order, each once.
func (a *attribution) namesOf(nodes []int) []string {
	return text.Map(slices.Compact(slices.Sorted(slices.Values(nodes))), func(node int) string { return a.names[node] })
}

func foldSets(sets [][]string) string {
	folded := text.Map(sets, hostfile.Fold)
	last := len(folded) - 1
	return strings.Join(folded[:last], ", ") + " and " + folded[last]
}
