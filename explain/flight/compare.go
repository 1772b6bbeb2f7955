// SPDX-License-Identifier: Apache-2.0

package flight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Said is what dumps tell together, in one sentence, and where it is read.
type Said struct {
	Dump   int // of those compared
	Record int // in it, from 1
	Text   string

	rank int   // how near it is to the beginning of it all
	at   int64 // when the ranks that wait began to
}

// How near to the beginning a sentence is: whoever is missing from one group may wait in another
// for somebody who is missing there.
const (
	atFault = iota
	held    // by somebody else, it seems
	together
	unheard // no dump tells
)

// group is one group of ranks, with what those who left a dump did in it.
type group struct {
	name, desc string
	members    []int
	places     map[int]*place // by rank
}

// place is how far one rank is in a group.
type place struct {
	dump              int
	calls             map[int64]*Call // the last record of each number, which stands for a coalesced one
	first, last, done int64           // numbers: the lowest kept, the highest made, the highest known to have ended
	latest            Call            // in any group
	waits             map[string]bool
}

func (p *place) add(c *Call) {
	if p.first == 0 {
		p.first = c.Number
	}
	p.calls[c.Number] = c
	p.last = max(p.last, c.Number)
	switch {
	case c.State == "completed":
		p.done = max(p.done, c.Number)
	case c.Vague:
		p.done = max(p.done, c.Number-1) // this one may be waited for
	}
}

// Compare says what is wrong with the collectives of one job by the dumps of its ranks, what is
// nearest to the beginning first; nothing where all ended.
//
// A group numbers its collectives on each rank by itself, so that those of one number should be
// one call of all its ranks, as tools/flight_recorder of torch takes it.
func Compare(dumps []Dump) []Said {
	var all []Said
	for _, g := range groups(dumps) {
		all = append(all, g.first()...)
	}
	all = append(all, between(dumps)...)
	slices.SortStableFunc(all, func(a, b Said) int { return cmp.Or(a.rank-b.rank, cmp.Compare(a.at, b.at)) })
	return all
}

// groups are those of all dumps. Two of one name are two where their ranks differ.
func groups(dumps []Dump) []*group {
	known := map[string]*group{}
	var all []*group
	for i, d := range dumps {
		own := map[string]*group{} // by name
		waits := map[string]bool{}
		in := func(name string) *group {
			if own[name] != nil {
				return own[name]
			}
			members := d.members(name)
			key := name + fmt.Sprint(members)
			if known[key] == nil {
				known[key] = &group{name: name, members: members, places: map[int]*place{}}
				all = append(all, known[key])
			}
			own[name] = known[key]
			own[name].places[d.Rank] = &place{dump: i, calls: map[int64]*Call{}, waits: waits}
			return own[name]
		}
		for _, name := range slices.Sorted(maps.Keys(d.Groups)) {
			in(name)
		}
		latest := Call{}
		if n := len(d.Calls); n > 0 {
			latest = d.Calls[n-1]
		}
		for at := range d.Calls {
			c := &d.Calls[at]
			if !c.Between {
				g := in(c.Group)
				g.desc = cmp.Or(g.desc, c.Desc)
				g.places[d.Rank].add(c)
			}
		}
		for name, g := range own {
			p := g.places[d.Rank]
			p.latest = latest
			if p.last > p.done && !p.calls[p.last].Vague {
				waits[name] = true
			}
		}
	}
	return all
}

// members are the ranks of a group. The hook of torch 2.15 keeps them of the whole world under no
// name.
func (d Dump) members(name string) []int {
	if ranks, known := d.Groups[name]; known {
		return ranks
	}
	return d.Groups[""]
}

// first is what is wrong at the first number where something is: what comes after it is not the
// same calls any more.
func (g *group) first() []Said {
	if len(g.places) == 0 || len(g.members) == 1 {
		return nil
	}
	ranks := slices.Sorted(maps.Keys(g.places))
	numbers := map[int64]bool{}
	var from int64
	for _, p := range g.places {
		from = max(from, p.first) // what came before is not kept on all ranks
		for n := range p.calls {
			numbers[n] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		if n < from {
			continue
		}
		if said := g.at(n, ranks); said != nil {
			return said
		}
	}
	return nil
}

func (g *group) at(n int64, ranks []int) []Said {
	var present, absent, open, ended []int
	for _, rank := range ranks {
		p := g.places[rank]
		switch _, called := p.calls[n]; {
		case called && n > p.done:
			present, open = append(present, rank), append(open, rank)
		case called:
			present, ended = append(present, rank), append(ended, rank)
		case p.last < n:
			absent = append(absent, rank)
		}
	}
	if len(present) == 0 {
		return nil
	}
	if said, differ := g.differ(n, present); differ {
		return []Said{said}
	}
	var silent []int
	for _, rank := range g.members {
		if g.places[rank] == nil {
			silent = append(silent, rank)
		}
	}
	switch {
	case len(open) == 0:
		return nil
	case len(absent) > 0:
		return g.missing(*g.places[open[0]].calls[n], open, absent)
	case g.places[open[0]].calls[n].Vague:
		return nil
	case len(ended) > 0:
		return g.unfinished(n, open, ended)
	case len(silent) > 0:
		p := g.places[open[0]]
		return []Said{g.said(p.dump, *p.calls[n], unheard, fmt.Sprintf("%s in %s of %s%s, and of %s there is no dump",
			do(open, "waits", "wait"), numbered(*p.calls[n]), g, since(*p.calls[n]), named(silent)))}
	}
	p := g.places[open[0]]
	return []Said{g.said(p.dump, *p.calls[n], together, fmt.Sprintf("%s, all of %s, are in %s of one size%s, and none has finished it",
		named(open), g, numbered(*p.calls[n]), since(*p.calls[n])))}
}

func (g *group) said(dump int, where Call, rank int, text string) Said {
	return Said{Dump: dump, Record: where.Record, Text: "flight recorder: " + text, rank: rank, at: where.At}
}

// missing is a sentence for each rank that did not come.
func (g *group) missing(waiting Call, open, absent []int) []Said {
	var all []Said
	for _, rank := range absent {
		p := g.places[rank]
		near := atFault
		if len(p.waits) > 0 {
			near = held
		}
		said := g.said(p.dump, p.latest, near, fmt.Sprintf("rank %d did not come to %s of %s: %s in it%s; %s",
			rank, numbered(waiting), g, do(open, "waits", "wait"), since(waiting), lastOf(rank, p.latest)))
		said.at = waiting.At
		all = append(all, said)
	}
	return all
}

func (g *group) unfinished(n int64, open, ended []int) []Said {
	var all []Said
	for _, rank := range open {
		p := g.places[rank]
		c := *p.calls[n]
		all = append(all, g.said(p.dump, c, held, fmt.Sprintf("rank %d has not finished %s of %s%s, and %s; there it is %s",
			rank, numbered(c), g, since(c), do(ended, "has", "have"), c.state())))
	}
	return all
}

// differ is whether the calls of one number are not one call, and says which ranks made another
// one than most.
func (g *group) differ(n int64, present []int) (Said, bool) {
	kinds := map[kind][]int{}
	for _, rank := range present {
		kind := g.places[rank].calls[n].kind()
		kinds[kind] = append(kinds[kind], rank)
	}
	if len(kinds) < 2 {
		return Said{}, false
	}
	byRanks := slices.SortedFunc(maps.Values(kinds), func(a, b []int) int { return cmp.Or(len(a)-len(b), a[0]-b[0]) })
	few, most := byRanks[0], byRanks[len(byRanks)-1]
	p := g.places[few[0]]
	one, other := *p.calls[n], *g.places[most[0]].calls[n]
	return g.said(p.dump, one, atFault, fmt.Sprintf("at number %d of %s %s called %s%s, and %s called %s%s",
		n, g, named(few), one.sized(), since(one), named(most), other.sized(), since(other))), true
}

// uneven are the collectives to which ranks may bring other amounts each (torch 2.15,
// torch/distributed/flight_recorder/components/types.py, and torch.distributed's own documentation).
var uneven = []string{"all_to_all", "all_to_all_single", "all_to_all_v_single", "all_to_allv", "gather", "scatter", "reduce_scatter_v", "all_gather_v", "coalesced"}

// kind is what must be one on all ranks.
type kind struct {
	op       string
	elements int64
	dtype    string
}

func (c Call) kind() kind {
	if slices.Contains(uneven, c.Op) {
		return kind{op: c.Op}
	}
	return kind{c.Op, c.Elements, c.Type}
}
