// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"testing"

	"preflight/facts"
	"preflight/internal/hostsys"
)

// TestUnmet checks that late members prove nothing if one of them was too busy.
func TestUnmet(t *testing.T) {
	late := facts.Rendezvous{Failed: facts.HopWait}
	for _, c := range []struct {
		name string
		seen facts.Rendezvous // what the second member saw
		late bool
		want string
	}{
		{"it met", facts.Rendezvous{}, false, ""},
		{"it was late", late, true, ""},
		{"its peer was silent", facts.Rendezvous{Failed: facts.HopValidate, Outcome: facts.PathSilent}, true, ""},
		{"it had no time", facts.Rendezvous{Failed: facts.HopConnect, Outcome: facts.PathUntried, Error: "why"}, true, "w2: why"},
		{"nobody answers its call", facts.Rendezvous{Failed: facts.HopConnect, Outcome: facts.PathDropped}, false, ""},
		{"it cannot serve", facts.Rendezvous{Failed: facts.HopServe, Outcome: facts.PathTaken}, false, ""},
	} {
		r := &run{members: membersFor(2)}
		got := r.unmet([]facts.Rendezvous{late, c.seen}, make([]error, 2), hostsys.BeginWait())
		if got != c.want || isLate(c.seen) != c.late {
			t.Errorf("%s: %q, want %q; late %v", c.name, got, c.want, isLate(c.seen))
		}
	}
}

// TestForgive checks that a login without an answer counts as untried. A login that the peer
// refused must stay a failure.
func TestForgive(t *testing.T) {
	got := facts.Logins{Failed: []facts.Login{{Peer: "w2", Cause: "timeout"}, {Peer: "w3", Cause: "denied"}}}
	forgive(&got)
	if len(got.Failed) != 1 || got.Failed[0].Peer != "w3" || !slices.Equal(got.Untried, []string{"w2"}) {
		t.Errorf("got %+v", got)
	}
}
