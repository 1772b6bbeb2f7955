package checks

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
func (q *inquest) blame() []suspect {
	in, out := make([]share, len(q.names)), make([]share, len(q.names))
	for i, a := range q.attempts {
		if !a.failed {
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
	var found []suspect
	for node := range q.names {
		s, explains := q.atNode(node, in[node], out[node])
		if !explains {
			single = append(single, s.failed...)
			continue
		}
		found = append(found, s)
	}
	return q.gather(found, single)
}

// atNode is the node as a suspect. One attempt alone says nothing of the node:
// that is a direction.
func (q *inquest) atNode(node int, in, out share) (s suspect, explains bool) {
	failed := slices.Concat(in.blamed, out.blamed)
	kind, all := inbound, in.passed == 0
	switch {
	case len(failed) < 2 || len(failed) == 2 && len(in.blamed) == 1:
		return suspect{failed: failed}, false
	case len(in.blamed) > 0 && len(out.blamed) > 0:
		kind, all = bothWays, in.passed+out.passed == 0
	case len(out.blamed) > 0:
		kind, all = outbound, out.passed == 0
	}
	s = q.suspect(kind, []int{node}, failed)
	s.all = all
	if !all {
		peers := slices.DeleteFunc(q.ends(failed), func(end int) bool { return end == node })
		s.peers = q.spell(peers)
	}
	return s, true
}

// manyAlike is how many suspects of one kind, each with peers of its own, are
// told apart. More of them are no single nodes' fault.
const manyAlike = 3

// gather joins suspects of one kind, and single directions by what became of
// them.
func (q *inquest) gather(found []suspect, single []int) []suspect {
	alike := map[string]int{}
	gathered := q.join(found, func(s suspect) string {
		return fmt.Sprint(s.kind, s.all, s.how, hostfile.Fold(s.peers))
	})
	for _, s := range gathered {
		if !s.all {
			alike[fmt.Sprint(s.kind, s.how)]++
		}
	}
	var told []suspect
	for _, s := range gathered {
		if !s.all && alike[fmt.Sprint(s.kind, s.how)] > manyAlike {
			single = append(single, s.failed...)
			continue
		}
		told = append(told, s)
	}
	slices.Sort(single)
	var lone []suspect
	for _, i := range single {
		lone = append(lone, q.suspect(directions, q.ends([]int{i}), []int{i}))
	}
	return append(told, q.join(lone, func(s suspect) string { return s.how })...)
}

// join makes one suspect of those with the same key.
func (q *inquest) join(found []suspect, key func(suspect) string) []suspect {
	var joined []suspect
	at := map[string]int{}
	for _, s := range found {
		i, seen := at[key(s)]
		if !seen {
			at[key(s)] = len(joined)
			joined = append(joined, s)
			continue
		}
		joined[i].nodes = append(joined[i].nodes, s.nodes...)
		joined[i].failed = append(joined[i].failed, s.failed...)
	}
	for i, s := range joined {
		if s.kind == directions {
			joined[i].nodes = q.spell(q.ends(s.failed))
		}
	}
	return joined
}

// arrows writes failed attempts as "w1 → w2, w[3-4] → w5, w6 ↔ w7".
func arrows(attempts []attempt, failed []int) []string {
	tried := map[[2]string]bool{}
	for _, i := range failed {
		tried[[2]string{attempts[i].from, attempts[i].to}] = true
	}
	var oneWay, mutual [][2]string
	for _, i := range failed {
		pair, reverse := [2]string{attempts[i].from, attempts[i].to}, [2]string{attempts[i].to, attempts[i].from}
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
