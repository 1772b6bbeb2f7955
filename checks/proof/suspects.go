package proof

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"preflight/hostfile"
)

// Attempt is one node's try to get through to another.
type Attempt struct {
	From, To string
	Failed   bool
	How      string // what became of it, "" when it passed
}

// suspicion is the kind of place where a cause must be.
type suspicion int

const (
	Everywhere suspicion = iota // nothing passes between any two of the nodes
	Between                     // nothing passes between groups of nodes
	Inbound                     // on the way into the nodes
	Outbound                    // on the way out of them
	BothWays                    // on both
	Directions                  // Between single nodes
)

// Suspect explains attempts that failed.
type Suspect struct {
	Kind  suspicion
	How   string     // what became of most of its attempts
	Nodes []string   // whom it is about, in hostfile order
	Sets  [][]string // of between: the groups, the largest first
	// all is whether nothing passed to or from the nodes at all; else peers
	// are those with whom it failed.
	All    bool
	Peers  []string
	Failed []int // its attempts, by index
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
	inq := newAttribution(names, attempts)
	if len(inq.open) == 0 {
		return nil
	}
	if s, nothing := inq.nothingPasses(); nothing {
		return []Suspect{s}
	}
	var found []Suspect
	if s, parted := inq.parted(); parted {
		found = append(found, s)
	}
	return append(found, inq.blame()...)
}

// attribution is the state of one search for suspects. Nodes are numbers here: their
// places in the hostfile.
type attribution struct {
	names    []string
	attempts []Attempt
	from, to []int // the ends of each attempt
	open     []int // failed attempts that nothing explains yet
}

func newAttribution(names []string, attempts []Attempt) *attribution {
	at := make(map[string]int, len(names))
	for i, name := range names {
		at[name] = i
	}
	inq := &attribution{names: names, attempts: attempts, from: make([]int, len(attempts)), to: make([]int, len(attempts))}
	for i, a := range attempts {
		inq.from[i], inq.to[i] = at[a.From], at[a.To]
		if a.Failed {
			inq.open = append(inq.open, i)
		}
	}
	return inq
}

// nothingPasses is the suspect when every node failed as caller and as callee
// in all it tried.
func (q *attribution) nothingPasses() (Suspect, bool) {
	if len(q.open) < len(q.attempts) {
		return Suspect{}, false
	}
	calls, called := map[int]bool{}, map[int]bool{}
	for i := range q.attempts {
		calls[q.from[i]], called[q.to[i]] = true, true
	}
	if len(calls) != len(called) {
		return Suspect{}, false
	}
	for node := range calls {
		if !called[node] {
			return Suspect{}, false
		}
	}
	return q.suspect(Everywhere, q.ends(q.open), q.open), true
}

// parted finds groups of two and more nodes within which something passes and
// between which nothing does, and takes what fails between them off the open
// attempts. Of nodes that are cut off alone, their own attempts tell more.
func (q *attribution) parted() (Suspect, bool) {
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
		if !a.Failed {
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
		return Suspect{}, false
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
	s := q.suspect(Between, nodes, across)
	s.Sets = sets
	return s, true
}

// suspect puts nodes and the attempts they explain together.
func (q *attribution) suspect(kind suspicion, nodes, failed []int) Suspect {
	count := map[string]int{}
	for _, i := range failed {
		count[q.attempts[i].How]++
	}
	how := ""
	for _, each := range slices.Sorted(maps.Keys(count)) {
		if count[each] > count[how] {
			how = each
		}
	}
	return Suspect{Kind: kind, How: how, Nodes: q.spell(nodes), Failed: failed}
}

// ends are the nodes at both ends of attempts.
func (q *attribution) ends(attempts []int) []int {
	var nodes []int
	for _, i := range attempts {
		nodes = append(nodes, q.from[i], q.to[i])
	}
	return nodes
}

// spell is the names of nodes in hostfile order, each once.
func (q *attribution) spell(nodes []int) []string {
	var names []string
	for _, node := range slices.Compact(slices.Sorted(slices.Values(nodes))) {
		names = append(names, q.names[node])
	}
	return names
}

func FoldSets(sets [][]string) string {
	var folded []string
	for _, set := range sets {
		folded = append(folded, hostfile.Fold(set))
	}
	last := len(folded) - 1
	return strings.Join(folded[:last], ", ") + " and " + folded[last]
}
