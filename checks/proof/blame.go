// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"cmp"
	"fmt"
	"slices"

	"preflight/hostfile"
	"preflight/internal/text"
)

// share counts the attempts of one direction that passed and failed at a node. It also holds the
// attempts that are blamed on the node.
type share struct {
	passed, failed int
	blamed         []Attempt
}

// compare orders shares by their ratio of failures. The share with the largest ratio comes last.
func (s share) compare(other share) int {
	return s.failed*(other.passed+other.failed) - other.failed*(s.passed+s.failed)
}

// blame assigns every unexplained attempt to the node at one of its ends, or to the direction
// between the two nodes.
func (a *attribution) blame() []Suspect {
	in, out := make([]share, len(a.names)), make([]share, len(a.names))
	for _, each := range a.attempts {
		if !each.Failed {
			in[each.to].passed++
			out[each.from].passed++
		}
	}
	for _, each := range a.open {
		in[each.to].failed++
		out[each.from].failed++
	}
	var alike, single []Attempt
	for _, each := range a.open {
		callee, caller := &in[each.to], &out[each.from]
		switch order := callee.compare(*caller); {
		case order > 0:
			callee.blamed = append(callee.blamed, each)
		case order < 0:
			caller.blamed = append(caller.blamed, each)
		default:
			alike = append(alike, each)
		}
	}
	for _, each := range alike {
		callee, caller := &in[each.to], &out[each.from]
		switch {
		case len(callee.blamed) > 0:
			callee.blamed = append(callee.blamed, each)
		case len(caller.blamed) > 0:
			caller.blamed = append(caller.blamed, each)
		default:
			single = append(single, each)
		}
	}
	var found []Suspect
	for node := range a.names {
		s, explains := a.atNode(node, in[node], out[node])
		if !explains {
			single = append(single, s.Failed...)
			continue
		}
		found = append(found, s)
	}
	return a.gather(found, single)
}

// atNode returns the node as a suspect. explains is false if the node has only a single failed
// attempt in each direction. That proves nothing about the node, so the attempts remain a matter of
// the direction.
func (a *attribution) atNode(node int, in, out share) (s Suspect, explains bool) {
	failed := slices.Concat(in.blamed, out.blamed)
	kind, all := Inbound, in.passed == 0
	switch {
	case len(failed) < 2 || len(failed) == 2 && len(in.blamed) == 1:
		return Suspect{Failed: failed}, false
	case len(in.blamed) > 0 && len(out.blamed) > 0:
		kind, all = BothWays, in.passed+out.passed == 0
	case len(out.blamed) > 0:
		kind, all = Outbound, out.passed == 0
	}
	s = a.suspect(kind, []int{node}, failed)
	s.All = all
	if !all {
		s.Peers = a.namesOf(slices.DeleteFunc(ends(failed), func(end int) bool { return end == node }))
	}
	return s, true
}

// manyAlike is the largest number of suspects of one kind with different peers that are reported
// separately. If there are more, the nodes are not the cause.
const manyAlike = 3

// gather joins suspects of the same kind. It also joins single directions with the same result.
func (a *attribution) gather(found []Suspect, single []Attempt) []Suspect {
	kind := func(s Suspect) string { return fmt.Sprint(s.Kind, s.How) }
	alike := map[string]int{}
	joined := a.join(found, func(s Suspect) string { return fmt.Sprint(s.Kind, s.All, s.How, hostfile.Fold(s.Peers)) })
	for _, s := range joined {
		if !s.All {
			alike[kind(s)]++
		}
	}
	var kept []Suspect
	for _, s := range joined {
		if !s.All && alike[kind(s)] > manyAlike {
			single = append(single, s.Failed...)
			continue
		}
		kept = append(kept, s)
	}
	slices.SortFunc(single, func(a, b Attempt) int { return cmp.Compare(a.place, b.place) })
	lone := text.Map(single, func(each Attempt) Suspect { return a.suspect(Directions, nil, []Attempt{each}) })
	return append(kept, a.join(lone, func(s Suspect) string { return s.How })...)
}

// join merges suspects with the same key.
func (a *attribution) join(found []Suspect, key func(Suspect) string) []Suspect {
	var joined []Suspect
	for _, alike := range text.GroupBy(found, key) {
		s := alike.All[0]
		for _, other := range alike.All[1:] {
			s.Nodes = append(s.Nodes, other.Nodes...)
			s.Failed = append(s.Failed, other.Failed...)
		}
		if s.Kind == Directions {
			s.Nodes = a.namesOf(ends(s.Failed))
		}
		joined = append(joined, s)
	}
	return joined
}

// Arrows formats failed attempts as "w1 → w2, w[3-4] → w5, w6 ↔ w7".
func Arrows(failed []Attempt) []string {
	tried := map[[2]string]bool{}
	for _, each := range failed {
		tried[[2]string{each.From, each.To}] = true
	}
	var oneWay, mutual [][2]string
	for _, each := range failed {
		pair, reverse := [2]string{each.From, each.To}, [2]string{each.To, each.From}
		switch {
		case !tried[reverse]:
			oneWay = append(oneWay, pair)
		case tried[pair]:
			mutual = append(mutual, pair)
			delete(tried, reverse)
		}
	}
	return append(bundles(oneWay, " → "), bundles(mutual, " ↔ ")...)
}

// bundles merges pairs that share the first node or pairs that share the second node, whichever
// gives fewer lines.
func bundles(pairs [][2]string, arrow string) []string {
	fold := func(pairs [][2]string, end int) string {
		return hostfile.Fold(text.Map(pairs, func(pair [2]string) string { return pair[end] }))
	}
	bundle := func(key, other int) (lines []string) {
		byKey := text.GroupBy(pairs, func(pair [2]string) string { return pair[key] })
		for _, alike := range text.GroupBy(byKey, func(one text.Group[string, [2]string]) string { return fold(one.All, other) }) {
			joined := text.Map(alike.All, func(one text.Group[string, [2]string]) string { return one.Key })
			ends := [2]string{}
			ends[key], ends[other] = hostfile.Fold(joined), alike.Key
			lines = append(lines, ends[0]+arrow+ends[1])
		}
		return lines
	}
	byFirst, bySecond := bundle(0, 1), bundle(1, 0)
	if len(bySecond) < len(byFirst) {
		return bySecond
	}
	return byFirst
}
