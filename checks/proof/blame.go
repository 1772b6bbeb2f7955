package proof

import (
	"fmt"
	"slices"

	"preflight/hostfile"
)

// share is how many attempts of one direction passed and failed at a node, and
// those that are blamed on it.
type share struct {
	passed, failed int
	blamed         []int
}

// compare puts the larger share of failures last.
func (s share) compare(other share) int {
	return s.failed*(other.passed+other.failed) - other.failed*(s.passed+s.failed)
}

// blame gives every open attempt to one of its ends or to the direction.
func (q *attribution) blame() []Suspect {
	in, out := make([]share, len(q.names)), make([]share, len(q.names))
	for i, a := range q.attempts {
		if !a.Failed {
			in[q.to[i]].passed++
			out[q.from[i]].passed++
		}
	}
	for _, i := range q.open {
		in[q.to[i]].failed++
		out[q.from[i]].failed++
	}
	var alike, single []int
	for _, i := range q.open {
		callee, caller := &in[q.to[i]], &out[q.from[i]]
		switch order := callee.compare(*caller); {
		case order > 0:
			callee.blamed = append(callee.blamed, i)
		case order < 0:
			caller.blamed = append(caller.blamed, i)
		default:
			alike = append(alike, i)
		}
	}
	for _, i := range alike {
		callee, caller := &in[q.to[i]], &out[q.from[i]]
		switch {
		case len(callee.blamed) > 0:
			callee.blamed = append(callee.blamed, i)
		case len(caller.blamed) > 0:
			caller.blamed = append(caller.blamed, i)
		default:
			single = append(single, i)
		}
	}
	var found []Suspect
	for node := range q.names {
		s, explains := q.atNode(node, in[node], out[node])
		if !explains {
			single = append(single, s.Failed...)
			continue
		}
		found = append(found, s)
	}
	return q.gather(found, single)
}

// atNode is the node as a suspect. One attempt alone says nothing of the node:
// that is a direction.
func (q *attribution) atNode(node int, in, out share) (s Suspect, explains bool) {
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
	s = q.suspect(kind, []int{node}, failed)
	s.All = all
	if !all {
		peers := slices.DeleteFunc(q.ends(failed), func(end int) bool { return end == node })
		s.Peers = q.spell(peers)
	}
	return s, true
}

// manyAlike is how many suspects of one kind, each with peers of its own, are
// told apart. More of them are no single nodes' fault.
const manyAlike = 3

// gather joins suspects of one kind, and single directions by what became of
// them.
func (q *attribution) gather(found []Suspect, single []int) []Suspect {
	alike := map[string]int{}
	gathered := q.join(found, func(s Suspect) string {
		return fmt.Sprint(s.Kind, s.All, s.How, hostfile.Fold(s.Peers))
	})
	for _, s := range gathered {
		if !s.All {
			alike[fmt.Sprint(s.Kind, s.How)]++
		}
	}
	var told []Suspect
	for _, s := range gathered {
		if !s.All && alike[fmt.Sprint(s.Kind, s.How)] > manyAlike {
			single = append(single, s.Failed...)
			continue
		}
		told = append(told, s)
	}
	slices.Sort(single)
	var lone []Suspect
	for _, i := range single {
		lone = append(lone, q.suspect(Directions, q.ends([]int{i}), []int{i}))
	}
	return append(told, q.join(lone, func(s Suspect) string { return s.How })...)
}

// join makes one suspect of those with the same key.
func (q *attribution) join(found []Suspect, key func(Suspect) string) []Suspect {
	var joined []Suspect
	at := map[string]int{}
	for _, s := range found {
		i, seen := at[key(s)]
		if !seen {
			at[key(s)] = len(joined)
			joined = append(joined, s)
			continue
		}
		joined[i].Nodes = append(joined[i].Nodes, s.Nodes...)
		joined[i].Failed = append(joined[i].Failed, s.Failed...)
	}
	for i, s := range joined {
		if s.Kind == Directions {
			joined[i].Nodes = q.spell(q.ends(s.Failed))
		}
	}
	return joined
}

// Arrows writes failed attempts as "w1 → w2, w[3-4] → w5, w6 ↔ w7".
func Arrows(attempts []Attempt, failed []int) []string {
	tried := map[[2]string]bool{}
	for _, i := range failed {
		tried[[2]string{attempts[i].From, attempts[i].To}] = true
	}
	var oneWay, mutual [][2]string
	for _, i := range failed {
		pair, reverse := [2]string{attempts[i].From, attempts[i].To}, [2]string{attempts[i].To, attempts[i].From}
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

// bundles joins pairs by what they have in common, the first or the second,
// whichever makes fewer of them.
func bundles(pairs [][2]string, arrow string) []string {
	bundle := func(key, other int) (lines []string) {
		others, keys := map[string][]string{}, map[string][]string{}
		var order, sets []string
		for _, pair := range pairs {
			if others[pair[key]] == nil {
				order = append(order, pair[key])
			}
			others[pair[key]] = append(others[pair[key]], pair[other])
		}
		for _, name := range order {
			set := hostfile.Fold(others[name])
			if keys[set] == nil {
				sets = append(sets, set)
			}
			keys[set] = append(keys[set], name)
		}
		for _, set := range sets {
			ends := [2]string{}
			ends[key], ends[other] = hostfile.Fold(keys[set]), set
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
