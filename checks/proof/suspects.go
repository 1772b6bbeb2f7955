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

// Attempt is an attempt of one node to reach another node.
type Attempt struct {
	From, To string
	Failed   bool
	How      string       // the result, "" if it passed
	Path     *facts.Path  // the connection if a connection failed, otherwise nil
	Login    *facts.Login // the login if a login failed, otherwise nil

	place, from, to int // index among all attempts, and the indexes of both nodes in the hostfile
}

// suspicion is the kind of place in which the cause of the failures must be.
type suspicion int

const (
	Everywhere suspicion = iota // no attempt between any two nodes passed
	Between                     // no attempt between groups of nodes passed
	Inbound                     // on the way into the nodes
	Outbound                    // on the way out of the nodes
	BothWays                    // on the way into and out of the nodes
	Directions                  // between single nodes, each in one direction
)

// Suspect is a likely cause of failed attempts, with the attempts that it explains.
type Suspect struct {
	Kind  suspicion
	How   string     // the most common result of the attempts
	Nodes []string   // the suspected nodes in hostfile order
	Sets  [][]string // for Between: the groups of nodes, the largest group first
	// All means that no attempt to or from the nodes passed. Otherwise Peers lists the nodes to or
	// from which attempts failed.
	All    bool
	Peers  []string
	Failed []Attempt
}

// Words holds two texts for each kind of suspect. The first text is for a suspect with All set, and
// for several directions. The second text contains %s for the peers, for the one direction, or for
// the groups.
type Words [Directions + 1][2]string

// Sentence returns the sentence that reports this suspect.
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
	return strings.Replace(some, "%s", names, 1) // not Sprintf, because an interface's name may contain a percent sign
}

// Suspects explains all failed attempts with few suspects. Its time is linear in the number of
// attempts. names lists all nodes in hostfile order. attempts must not contain a node's attempts to
// reach itself.
//
// An attempt is blamed on the end with the larger ratio of failures in that direction. For example,
// if a node's firewall drops packets, all attempts to reach that node fail. Each of the other nodes
// fails in only one of many attempts. If both ratios are equal, the attempt is blamed on an end
// that is already suspected, otherwise on the direction.
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

// attribution is the state of one search for suspects. It uses the nodes' indexes in the hostfile.
type attribution struct {
	names    []string
	attempts []Attempt
	open     []Attempt // failed attempts that no suspect explains yet
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

// nothingPasses reports whether every attempt failed, and every node was at both ends of an
// attempt.
func (a *attribution) nothingPasses() bool {
	calls, called := map[int]bool{}, map[int]bool{}
	for _, each := range a.attempts {
		calls[each.from], called[each.to] = true, true
	}
	return len(a.open) == len(a.attempts) && maps.Equal(calls, called)
}

// partitions finds groups of at least two nodes that reach each other but not the nodes of another
// group. It removes the attempts between groups from a.open. Single nodes that are cut off are left
// to blame, because their own attempts tell more.
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

// suspect returns a suspect for the nodes and the attempts that they explain.
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

// ends returns the indexes of the nodes at both ends of the attempts.
func ends(attempts []Attempt) []int {
	var nodes []int
	for _, each := range attempts {
		nodes = append(nodes, each.from, each.to)
	}
	return nodes
}

// namesOf returns the names of nodes in hostfile order, without duplicates.
func (a *attribution) namesOf(nodes []int) []string {
	return text.Map(slices.Compact(slices.Sorted(slices.Values(nodes))), func(node int) string { return a.names[node] })
}

func foldSets(sets [][]string) string {
	folded := text.Map(sets, hostfile.Fold)
	last := len(folded) - 1
	return strings.Join(folded[:last], ", ") + " and " + folded[last]
}
