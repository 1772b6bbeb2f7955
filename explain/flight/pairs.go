// SPDX-License-Identifier: Apache-2.0

package flight

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// between is for whom a send or a receive waits, where the other rank left a dump and is in no
// call that could be its other end.
func between(dumps []Dump) []Said {
	byRank := map[int]int{}
	for i, d := range dumps {
		byRank[d.Rank] = i
	}
	var all []Said
	for i, d := range dumps {
		for _, c := range d.open() {
			peer, is := d.peer(c)
			other, known := byRank[peer]
			if !is || !known || slices.ContainsFunc(dumps[other].open(), func(o Call) bool {
				back, is := dumps[other].peer(o)
				return is && back == d.Rank && o.Group == c.Group && strings.HasPrefix(o.Op, "send") != strings.HasPrefix(c.Op, "send")
			}) {
				continue
			}
			near, latest := atFault, Call{}
			if n := len(dumps[other].Calls); n > 0 {
				latest = dumps[other].Calls[n-1]
			}
			if latest.Op != "" && latest.State != "completed" && !latest.Vague {
				near = held
			}
			all = append(all, Said{Dump: i, Record: c.Record, rank: near, at: c.At, Text: fmt.Sprintf("flight recorder: rank %d did not come to %s of %s: rank %d waits in it%s; %s",
				peer, numbered(c), groupName(c.Group, c.Desc), d.Rank, since(c), lastOf(peer, latest))})
		}
	}
	return all
}

// open are the calls between two ranks that have not ended, of each pair the last: those before it
// had to end first. One of several put together has no end of its own.
func (d Dump) open() []Call {
	ends := map[string]Call{}
	for _, c := range d.Calls {
		if c.Between {
			ends[c.Group+" "+c.Op] = c
		}
	}
	for _, c := range d.Calls {
		if c.Op == "coalesced" {
			maps.DeleteFunc(ends, func(_ string, o Call) bool { return o.Group == c.Group && o.Number == c.Number })
		}
	}
	maps.DeleteFunc(ends, func(_ string, c Call) bool { return c.State == "completed" || c.Vague })
	return slices.SortedFunc(maps.Values(ends), func(a, b Call) int { return a.Record - b.Record })
}

// peer is the other rank of "send 0->1" and "recv 1<-0", which count within their group.
func (d Dump) peer(c Call) (rank int, known bool) {
	_, ends, _ := strings.Cut(c.Op, " ")
	_, to, found := strings.Cut(ends, "->")
	if !found {
		_, to, found = strings.Cut(ends, "<-")
	}
	within, err := strconv.Atoi(to)
	members := slices.Sorted(slices.Values(d.members(c.Group)))
	if !found || err != nil || within >= len(members) {
		return 0, false
	}
	return members[within], true
}
