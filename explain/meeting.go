// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// meeting is one collective: ranks of one group number their calls alike, so that those of
// one number should be the same call.
type meeting struct {
	group  string // of ranks, as the message tells it
	number string
}

// call is what one rank was in when it gave up.
type call struct {
	rank         int
	op, elements string
}

// mostCalls bounds what a hostile log can make us remember.
const mostCalls = 100_000

// uneven are the operations to which each rank may bring another amount, or that are two ends
// of one transfer (torch csrc/distributed/c10d/Work.hpp, OpType).
var uneven = []string{"ALLTOALL", "ALLTOALL_BASE", "GATHER", "SCATTER", "SEND", "RECV", "RECVANYSOURCE", "COALESCED"}

// meets notes who was in which call.
func (t *tally) meets(e event) {
	rank, err := strconv.Atoi(e.rank)
	if err != nil || e.values["seq"] == "" || len(t.calls) >= mostCalls {
		return
	}
	m := meeting{e.values["group"], e.values["seq"]}
	if !slices.Contains(t.meetings, m) && len(t.meetings) < mostValues {
		t.meetings = append(t.meetings, m)
	}
	t.calls[callKey{m, rank}] = call{rank, e.values["op"], e.values["elements"]}
}

type callKey struct {
	meeting
	rank int
}

// at are the calls of one meeting, in the order of ranks.
func (t *tally) at(m meeting) []call {
	var calls []call
	for key, c := range t.calls {
		if key.meeting == m {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b call) int { return a.rank - b.rank })
	return calls
}

// apart says which two ranks were in different calls at one number; "" where none were. Groups
// number their calls each by itself: where messages do not tell the group and the log has
// several, nothing can be said.
func (t *tally) apart() (number, calls string) {
	for _, m := range t.meetings {
		if m.group == "" && t.groups {
			continue
		}
		all := t.at(m)
		for _, c := range all {
			first := all[0]
			if c.op != first.op && !slices.Contains(uneven, c.op) && !slices.Contains(uneven, first.op) ||
				c.op == first.op && c.elements != first.elements && !slices.Contains(uneven, c.op) {
				return m.number, fmt.Sprintf("%s and %s", first, c)
			}
		}
	}
	return "", ""
}

func (c call) String() string {
	return fmt.Sprintf("rank %d was in %s (NumelIn %s)", c.rank, cmp.Or(c.op, "a call"), cmp.Or(c.elements, "not told"))
}

// missing are the ranks below the highest one heard of that did not give up where most others
// did: they were not there. "" where too few are known to say so, as in the log of one node.
func (t *tally) missing() string {
	if len(t.meetings) == 0 || t.groups && t.meetings[0].group == "" {
		return ""
	}
	present := t.at(t.meetings[0])
	highest := t.highest
	for _, c := range present {
		highest = max(highest, c.rank)
	}
	var missing []string
	for rank := 0; rank <= highest && len(missing) <= len(present); rank++ {
		if !slices.ContainsFunc(present, func(c call) bool { return c.rank == rank }) {
			missing = append(missing, strconv.Itoa(rank))
		}
	}
	if len(missing) == 0 || 2*len(missing) > len(present) {
		return ""
	}
	return "rank " + strings.Join(missing, ", ")
}
