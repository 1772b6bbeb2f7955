// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
	"preflight/remote"
)

// busyFor is three members of a drill that began so long ago, of which each has lost so much to
// other work since, and the rest of what losses knows.
func busyFor(passed time.Duration, lost ...time.Duration) (members, losses) {
	all := membersFor(len(lost))
	before := losses{time.Now().Add(-passed), map[*member]time.Duration{}}
	for i, m := range all {
		m.agent = &remote.Agent{} // which has told of nothing
		before.of[m] = -lost[i]
	}
	return all, before
}

const (
	second = time.Second
	toil   = 3 * time.Second // of half a second more
)

// TestBusy: whoever has hardly come to its work is excused, and nobody else.
func TestBusy(t *testing.T) {
	for _, c := range []struct {
		name         string
		passed, lost time.Duration
		busy         bool
	}{
		{"idle", 4 * second, 0, false},
		{"a moment", second * 95 / 100, second * 9 / 10, false},
		{"most of it", 4 * second, 35 * second / 10, true},
		{"all of it", 4 * second, 4 * second, true},
		{"time enough was left", 4 * second, 2 * second, false},
		{"two seconds of a longer time", 8 * second, 6 * second, false},
		{"five seconds of a long time", 30 * second, 25 * second, false},
		{"hardly any of a long time", 30 * second, 295 * second / 10, true},
	} {
		all, before := busyFor(c.passed, c.lost)
		if words := before.busy(all[0]); (words != "") != c.busy {
			t.Errorf("%s: %q, want it busy %v", c.name, words, c.busy)
		}
	}
	all, before := busyFor(4*second, toil+second/2)
	load := 40.0
	all[0].Host = &facts.Host{Load: &load, CPU: facts.CPU{Usable: 2}}
	if got, want := before.busy(all[0]), "w1 is busy: it was kept from its work for 3.5 s, at a load of 40 on 2 processors"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	delete(before.of, all[0])
	if words := before.busy(all[0]); words != "" {
		t.Errorf("of a member that came later: %s", words)
	}
}

// TestExcuse: that a peer did not answer in time is no fault of it or the way where it, or who called
// it, was busy. What only a network or a stranger does is.
func TestExcuse(t *testing.T) {
	outcomes := []facts.PathOutcome{
		facts.PathDropped, facts.PathRefused, facts.PathRejected, facts.PathUnroutable, facts.PathUnresolved, facts.PathOverflow, facts.PathReset,
		facts.PathSilent, facts.PathBlackhole, facts.PathStranger, facts.PathMisdirected, facts.PathUntried,
	}
	excused := map[facts.PathOutcome]string{
		facts.PathSilent: "the caller, the peer", facts.PathBlackhole: "the caller, the peer",
	}
	for who, at := range map[string]int{"the caller": 0, "the peer": 1, "another": 2} {
		for _, outcome := range outcomes {
			lost := make([]time.Duration, 3)
			lost[at] = toil
			all, before := busyFor(toil+second/2, lost...)
			was := facts.Path{Peer: "w2", To: "10.0.0.2", Port: 40000, Outcome: outcome, Error: "as the node said", Stuck: "to", Seconds: 3}
			want, got := was, was
			if strings.Contains(excused[outcome], who) {
				want = facts.Path{
					Peer: "w2", To: "10.0.0.2", Port: 40000, Outcome: facts.PathUntried, Seconds: 3,
					Error: all[at].Name + " is busy: it was kept from its work for 3 s",
				}
			}
			before.excuse(&got, all[0], all[1])
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, of whom %s is busy (-want +got):\n%s", outcome, who, diff)
			}
		}
	}
}

// TestUnmet: that some were late for a meeting is not known to be their fault where one of them had no time
// for it. Who could not come for a reason of its own kept nobody.
func TestUnmet(t *testing.T) {
	met, late := facts.Rendezvous{}, facts.Rendezvous{Failed: facts.HopWait}
	silent := facts.Rendezvous{Failed: facts.HopValidate, Outcome: facts.PathSilent}
	failed := func(hop facts.Hop, outcome facts.PathOutcome) facts.Rendezvous {
		return facts.Rendezvous{Failed: hop, Outcome: outcome, Error: "why"}
	}
	for _, c := range []struct {
		name string
		seen facts.Rendezvous // of the third, for which the first waits
		lost error
		busy int // which of three, 0 for none
		want string
	}{
		{"it was late and busy", late, nil, 3, "w3 is busy: "},
		{"it was late and had the time", late, nil, 0, ""},
		{"it was late, and who waited is busy", late, nil, 1, "w1 is busy: "},
		{"it was late, and who met is busy", late, nil, 2, ""},
		{"it told nothing, and is busy", met, remote.ErrNoAnswer, 3, "w3 is busy: "},
		{"to it the store is silent, and it is busy", silent, nil, 3, "w3 is busy: "},
		{"to it the store is silent", silent, nil, 0, ""},
		{"it had no time", failed(facts.HopConnect, facts.PathUntried), nil, 0, "w3: why"},
		{"nobody answers its call, and it is busy", failed(facts.HopConnect, facts.PathDropped), nil, 3, ""},
		{"nobody listens, and it is busy", failed(facts.HopConnect, facts.PathRefused), nil, 3, ""},
		{"it has no way there, and is busy", failed(facts.HopConnect, facts.PathUnroutable), nil, 3, ""},
		{"it has no name for it, and is busy", failed(facts.HopResolve, ""), nil, 3, ""},
		{"it met somebody else's store, and is busy", failed(facts.HopValidate, facts.PathStranger), nil, 3, ""},
	} {
		lost := []time.Duration{0, 0, 0}
		if c.busy > 0 {
			lost[c.busy-1] = toil
		}
		all, before := busyFor(toil+second/2, lost...)
		got := before.unmet(all, []facts.Rendezvous{late, met, c.seen}, []error{nil, nil, c.lost})
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		seen facts.Rendezvous
		want bool
	}{
		{met, false}, {late, true}, {silent, true}, {failed(facts.HopConnect, facts.PathUntried), true},
		{failed(facts.HopConnect, facts.PathDropped), false}, {failed(facts.HopServe, facts.PathTaken), false},
	} {
		if got := isLate(c.seen); got != c.want {
			t.Errorf("late: %v of %+v", got, c.seen)
		}
	}
}

// TestForgive: a login that nobody answered in time is as if it had not been tried where one of the two was
// busy. What ssh was told there is not.
func TestForgive(t *testing.T) {
	for _, c := range []struct {
		name  string
		busy  []int
		cause string
		tried bool
	}{
		{"nobody", nil, "timeout", true},
		{"the caller", []int{0}, "timeout", false},
		{"the peer", []int{1}, "timeout", false},
		{"another", []int{2}, "timeout", true},
		{"all, and no key is accepted", []int{0, 1, 2}, "denied", true},
		{"all, and nobody listens", []int{0, 1, 2}, "connect", true},
	} {
		lost := make([]time.Duration, 3)
		for _, i := range c.busy {
			lost[i] = toil
		}
		all, before := busyFor(toil+second/2, lost...)
		got := facts.Logins{Passed: []string{"w3"}, Failed: []facts.Login{{Peer: "w2", Cause: c.cause}}}
		want := got
		if !c.tried {
			want = facts.Logins{Passed: []string{"w3"}, Failed: []facts.Login{}, Untried: []string{"w2"}}
		}
		want.Failed = slices.Clone(want.Failed)
		before.forgive(&got, all[0], all)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("busy is %s (-want +got):\n%s", c.name, diff)
		}
	}
}
