// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"fmt"
	"slices"

	"preflight/facts"
)

// Trial is a group of nodes that must reduce, with its stage. Nodes are numbers.
type Trial struct {
	Stage facts.SmokeStage
	Nodes []int
}

// Verdict says which nodes fail, as far as the trials prove it.
type Verdict struct {
	Bad    []int    // each of these nodes fails in every group
	Edges  [][2]int // the two nodes fail with each other, and work with other nodes
	Among  [][]int  // groups that fail together, without a known cause
	Common bool     // no pair passed
	// Untried lists the stages for which no time was left.
	Untried []facts.SmokeStage
}

// Isolate finds out which nodes cause a failure. Each of the given nodes works alone, and all of
// them together have failed.
//
// try runs the trials of one round at the same time. No node is in two trials of a round. try
// returns which trials passed, and whether there is time for another round. If the time ended
// before all trials were run, it returns only the first results.
//
// All nodes are paired, and a node that passes with any other node is well. The remaining nodes are
// tried with well nodes. A node is bad as soon as it has failed with two well nodes. Two well nodes
// that failed with each other are an edge. With k bad nodes of N this takes 1+⌈2k/(N−2k)⌉ rounds.
// It takes one more round if two bad nodes met in the first round, or one node had no partner in
// it.
//
// After that, the remaining nodes are tried together. If that fails although their pairs pass, the
// group is halved. An edge is found in 2·log₂N rounds. A node that is bad only in large groups is
// found in about as many.
func Isolate(nodes []int, try func(round []Trial) (passed []bool, more bool)) Verdict {
	p := isolation{nodes: nodes, try: try, passed: map[string]bool{key(nodes): false}, well: map[int]bool{}, hasTime: true}
	if len(nodes) > 2 {
		p.pair()
		p.together()
	} else {
		p.open(nodes)
	}
	return p.conclude()
}

// isolation holds what is known so far.
type isolation struct {
	nodes   []int
	try     func([]Trial) ([]bool, bool)
	hasTime bool            // there is time for another round
	passed  map[string]bool // result of every group that was tried
	well    map[int]bool    // nodes that passed in a pair
	failed  [][2]int        // pairs that failed, in the order in which they were tried
	// bad lists nodes that fail only in larger groups. without lists further nodes that are left
	// out to see how the other nodes do.
	bad, without []int
	among        [][]int
	untried      []facts.SmokeStage
}

// pair tries pairs until every node has passed with another node, or has failed with two nodes that
// passed.
func (p *isolation) pair() {
	// If no pair passes, the cause is probably common. If there are few nodes, half of them may be
	// bad. In that case another pairing lets two nodes of the other half meet.
	pairings := 2
	if len(p.nodes) <= 4 {
		pairings = 3 // with four nodes these are all possible pairs
	}
	for i := 0; i < pairings && len(p.well) == 0; i++ {
		p.tryAll(facts.SmokePair, pairing(p.nodes, i))
	}
	for p.tryAll(facts.SmokePair, p.suspects()) {
	}
}

// pairing returns the pairs of one round. In every round each node has another partner. If the
// number of nodes is odd, one node is paired with a number that does not exist.
func pairing(nodes []int, round int) (pairs [][]int) {
	seats := len(nodes) + len(nodes)%2
	at := func(seat int) int { // the first node stays, the others rotate
		if seat == 0 {
			return 0
		}
		return 1 + (seat-1+round)%(seats-1)
	}
	for i := range seats / 2 {
		if a, b := at(i), at(seats-1-i); a < len(nodes) && b < len(nodes) {
			pairs = append(pairs, []int{nodes[a], nodes[b]})
		}
	}
	return pairs
}

// suspects returns pairs of one suspect and one well node that have not been tried together. A
// suspect is a node that is known neither to be well nor to be bad.
func (p *isolation) suspects() (pairs [][]int) {
	partners := slices.DeleteFunc(slices.Clone(p.nodes), func(node int) bool { return !p.well[node] })
	for failures := range 2 { // nodes that have not been tried with a well node yet come first
		for _, node := range p.nodes {
			if p.well[node] || p.failures(node) != failures {
				continue
			}
			if i := slices.IndexFunc(partners, func(partner int) bool {
				_, met := p.passed[key([]int{node, partner})]
				return !met
			}); i >= 0 {
				pairs = append(pairs, []int{node, partners[i]})
				partners = slices.Delete(partners, i, i+1)
			}
		}
	}
	return pairs
}

// failures returns the number of well nodes with which a node has failed.
func (p *isolation) failures(node int) (n int) {
	for _, pair := range p.failed {
		if pair[0] == node && p.well[pair[1]] || pair[1] == node && p.well[pair[0]] {
			n++
		}
	}
	return n
}

// isBad reports whether a node failed with two well nodes. A single failure may be an edge. A
// failure with a node that is not well may be that node's fault.
func (p *isolation) isBad(node int) bool { return !p.well[node] && p.failures(node) > 1 }

// together tries the nodes without known problems together, until they pass.
func (p *isolation) together() {
	for _, node := range p.nodes {
		if !p.well[node] && !p.isBad(node) {
			return
		}
	}
	for {
		rest := p.rest()
		p.tryAll(facts.SmokeHalf, [][]int{rest})
		if !p.fails(rest) {
			return
		}
		group := p.narrow(rest, rest, 0)
		if len(group) == 2 {
			continue // a pair that failed is already known as an edge
		}
		// Smaller groups pass, possibly only because of their size. So other nodes of the rest are
		// added to reach the size.
		few := p.narrow(group, rest, len(group))
		if !p.isProven(few, group, rest) {
			p.open(group)
			return
		}
		if len(few) == 1 {
			p.bad = append(p.bad, few[0])
			continue
		}
		p.open(few)
		p.without = append(p.without, few[1])
	}
}

// rest returns all nodes except the bad ones. Of each two nodes that fail with each other, it
// leaves out one.
func (p *isolation) rest() (rest []int) {
	out := slices.Concat(p.bad, p.without)
	for _, pair := range p.edges() {
		if !slices.Contains(out, pair[0]) && !slices.Contains(out, pair[1]) {
			out = append(out, pair[1])
		}
	}
	for _, node := range p.nodes {
		if p.well[node] && !slices.Contains(out, node) {
			rest = append(rest, node)
		}
	}
	return rest
}

// narrow returns the smallest subset of some suspects that still makes a group fail. If groups need
// a certain size, it adds other nodes of the rest that are not suspects.
//
// If the whole fails and both halves pass, the fault is between the halves. In that case narrow
// tries a part of one half with a part of the other.
func (p *isolation) narrow(suspects, rest []int, size int) []int {
	whole := true // nothing is known yet about the two halves
	a, b := halves(suspects)
	for len(a)+len(b) > 1 {
		a1, a2 := halves(a)
		b1, b2 := halves(b)
		rounds := [][][2][]int{{{a1, b1}, {a2, b2}}, {{a1, b2}, {a2, b1}}}
		if whole {
			rounds = [][][2][]int{{{a, nil}, {b, nil}}}
		}
		smaller, found := p.firstToFail(rounds, without(rest, slices.Concat(a, b)), size, whole)
		switch {
		case found && whole:
			a, b = halves(smaller[0])
		case found && len(smaller[0])+len(smaller[1]) < len(a)+len(b):
			a, b = smaller[0], smaller[1]
		case whole:
			whole = false
		default:
			return slices.Concat(a, b)
		}
	}
	return slices.Concat(a, b)
}

// firstToFail tries parts of the suspects until one part fails. It tries the parts of a round at
// the same time.
func (p *isolation) firstToFail(rounds [][][2][]int, others []int, size int, whole bool) (smaller [2][]int, found bool) {
	for _, round := range rounds {
		free := others
		var groups [][]int
		for _, parts := range round {
			var group []int
			if whole || len(parts[0]) > 0 && len(parts[1]) > 0 {
				group = slices.Concat(parts[0], parts[1])
				joining := min(max(size-len(group), 0), len(free))
				group, free = append(group, free[:joining]...), free[joining:]
			}
			groups = append(groups, group)
		}
		p.tryAll(facts.SmokeHalf, groups)
		if i := slices.IndexFunc(groups, p.fails); i >= 0 {
			return round[i], true
		}
	}
	return smaller, false
}

// isProven reports whether a failing group passes after the last node of few has been replaced by
// another node. If it passes, the failure was not due to the group's size.
func (p *isolation) isProven(few, group, rest []int) bool {
	others := without(rest, group)
	if len(few) > 2 || len(others) == 0 {
		return false
	}
	changed := append(without(group, few[len(few)-1:]), others[0])
	p.tryAll(facts.SmokeHalf, [][]int{changed})
	return p.passed[key(changed)]
}

// tryAll runs those trials of a round that are new. It returns false if no trial was new, or no
// time was left.
func (p *isolation) tryAll(stage facts.SmokeStage, groups [][]int) bool {
	var round []Trial
	for _, group := range groups {
		if _, tried := p.passed[key(group)]; !tried && len(group) > 1 { // single nodes are known to work
			round = append(round, Trial{stage, group})
		}
	}
	if len(round) == 0 {
		return false
	}
	var passed []bool
	if p.hasTime {
		passed, p.hasTime = p.try(round)
	}
	for i, passed := range passed {
		nodes := round[i].Nodes
		p.passed[key(nodes)] = passed
		switch {
		case len(nodes) > 2:
		case passed:
			p.well[nodes[0]], p.well[nodes[1]] = true, true
		default:
			p.failed = append(p.failed, [2]int(nodes))
		}
	}
	if len(passed) < len(round) && !slices.Contains(p.untried, stage) {
		p.untried = append(p.untried, stage)
	}
	return len(passed) == len(round)
}

// fails reports whether a group is known to fail.
func (p *isolation) fails(group []int) bool {
	passed, tried := p.passed[key(group)]
	return tried && !passed
}

// edges returns the pairs that failed with each other and whose nodes are well.
func (p *isolation) edges() [][2]int {
	return slices.DeleteFunc(slices.Clone(p.failed), func(pair [2]int) bool { return !p.well[pair[0]] || !p.well[pair[1]] })
}

// open records that the culprit in a group is unknown. It merges overlapping groups, so that each
// node is in only one group.
func (p *isolation) open(group []int) {
	group = slices.Clone(group)
	p.among = slices.DeleteFunc(p.among, func(other []int) bool {
		shared := len(without(other, group)) < len(other)
		if shared {
			group = append(group, without(other, group)...)
		}
		return shared
	})
	slices.Sort(group)
	p.among = append(p.among, group)
}

func (p *isolation) conclude() Verdict {
	// With three nodes, two failing pairs share a node.
	common := len(p.well) == 0 && (len(p.failed) > 2 || len(p.failed) == 2 && len(p.nodes) > 3)
	v := Verdict{Bad: p.bad, Edges: p.edges(), Common: common, Untried: p.untried}
	for _, node := range p.nodes {
		if p.isBad(node) {
			v.Bad = append(v.Bad, node)
		}
	}
	for _, pair := range p.failed {
		if !common && !(p.well[pair[0]] && p.well[pair[1]]) && !p.isBad(pair[0]) && !p.isBad(pair[1]) {
			p.open(pair[:])
		}
	}
	if len(v.Bad)+len(v.Edges)+len(p.among) == 0 && !common {
		p.open(p.nodes)
	}
	slices.Sort(v.Bad)
	v.Among = p.among
	return v
}

func halves(nodes []int) (a, b []int) { return nodes[:(len(nodes)+1)/2], nodes[(len(nodes)+1)/2:] }

func without(nodes, some []int) []int {
	return slices.DeleteFunc(slices.Clone(nodes), func(node int) bool { return slices.Contains(some, node) })
}

// key returns the same text for the same nodes in any order.
func key(group []int) string { return fmt.Sprint(slices.Sorted(slices.Values(group))) }
