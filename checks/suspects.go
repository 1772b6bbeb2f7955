package checks

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"preflight/hostfile"
)

// attempt is one node's try to get through to another.
type attempt struct {
	from, to string
	failed   bool
	how      string // what became of it, "" when it passed
}

// suspicion is the kind of place where a cause must be.
type suspicion int

const (
	everywhere suspicion = iota // nothing passes between any two of the nodes
	between                     // nothing passes between groups of nodes
	inbound                     // on the way into the nodes
	outbound                    // on the way out of them
	bothWays                    // on both
	directions                  // between single nodes
)

// suspect explains attempts that failed.
type suspect struct {
	kind  suspicion
	how   string     // what became of most of its attempts
	nodes []string   // whom it is about, in hostfile order
	sets  [][]string // of between: the groups, the largest first
	// all is whether nothing passed to or from the nodes at all; else peers
	// are those with whom it failed.
	all    bool
	peers  []string
	failed []int // its attempts, by index
}

// suspects explains all failed attempts by few suspects, in time linear in the
// attempts. names are all nodes in hostfile order; a node's tries at itself are
// not for here.
//
// An attempt is blamed on the end that fails in the larger share of its
// attempts of that direction. A node whose firewall drops fails in all of them
// as callee, its callers each in one of many. Where both ends fail alike, it is
// blamed on what is blamed already, else on the direction.
func suspects(names []string, attempts []attempt) []suspect {
	inq := newInquest(names, attempts)
	if len(inq.open) == 0 {
		return nil
	}
	if s, nothing := inq.nothingPasses(); nothing {
		return []suspect{s}
	}
	var found []suspect
	if s, parted := inq.parted(); parted {
		found = append(found, s)
	}
	return append(found, inq.blame()...)
}

// inquest is the state of one search for suspects. Nodes are numbers here: their
// places in the hostfile.
type inquest struct {
	names    []string
	attempts []attempt
	from, to []int // the ends of each attempt
	open     []int // failed attempts that nothing explains yet
}

func newInquest(names []string, attempts []attempt) *inquest {
	at := make(map[string]int, len(names))
	for i, name := range names {
		at[name] = i
	}
	inq := &inquest{names: names, attempts: attempts, from: make([]int, len(attempts)), to: make([]int, len(attempts))}
	for i, a := range attempts {
		inq.from[i], inq.to[i] = at[a.from], at[a.to]
		if a.failed {
			inq.open = append(inq.open, i)
		}
	}
	return inq
}

// nothingPasses is the suspect when every node failed as caller and as callee
// in all it tried.
func (q *inquest) nothingPasses() (suspect, bool) {
	if len(q.open) < len(q.attempts) {
		return suspect{}, false
	}
	calls, called := map[int]bool{}, map[int]bool{}
	for i := range q.attempts {
		calls[q.from[i]], called[q.to[i]] = true, true
	}
	if len(calls) != len(called) {
		return suspect{}, false
	}
	for node := range calls {
		if !called[node] {
			return suspect{}, false
		}
	}
	return q.suspect(everywhere, q.ends(q.open), q.open), true
}

// parted finds groups of two and more nodes within which something passes and
// between which nothing does, and takes what fails between them off the open
// attempts. Of nodes that are cut off alone, their own attempts tell more.
func (q *inquest) parted() (suspect, bool) {
	leader := make([]int, len(q.names))
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
	for i, a := range q.attempts {
		if !a.failed {
			leader[find(q.from[i])] = find(q.to[i])
		}
	}
	members := map[int][]int{}
	for node := range leader {
		members[find(node)] = append(members[find(node)], node)
	}
	var across, rest []int
	parted := map[int]bool{}
	for _, i := range q.open {
		a, b := find(q.from[i]), find(q.to[i])
		if a == b || len(members[a]) < 2 || len(members[b]) < 2 {
			rest = append(rest, i)
			continue
		}
		across = append(across, i)
		parted[a], parted[b] = true, true
	}
	if len(across) == 0 {
		return suspect{}, false
	}
	q.open = rest
	var nodes []int
	var sets [][]string
	for group := range parted {
		nodes = append(nodes, members[group]...)
		sets = append(sets, q.spell(members[group]))
	}
	slices.SortFunc(sets, func(a, b []string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(hostfile.Fold(a), hostfile.Fold(b)))
	})
	s := q.suspect(between, nodes, across)
	s.sets = sets
	return s, true
}

// suspect puts nodes and the attempts they explain together.
func (q *inquest) suspect(kind suspicion, nodes, failed []int) suspect {
	count := map[string]int{}
	for _, i := range failed {
		count[q.attempts[i].how]++
	}
	how := ""
	for _, each := range slices.Sorted(maps.Keys(count)) {
		if count[each] > count[how] {
			how = each
		}
	}
	return suspect{kind: kind, how: how, nodes: q.spell(nodes), failed: failed}
}

// ends are the nodes at both ends of attempts.
func (q *inquest) ends(attempts []int) []int {
	var nodes []int
	for _, i := range attempts {
		nodes = append(nodes, q.from[i], q.to[i])
	}
	return nodes
}

// spell is the names of nodes in hostfile order, each once.
func (q *inquest) spell(nodes []int) []string {
	var names []string
	for _, node := range slices.Compact(slices.Sorted(slices.Values(nodes))) {
		names = append(names, q.names[node])
	}
	return names
}
