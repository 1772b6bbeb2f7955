package fleet

import (
	"errors"
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
		facts.PathSilent, facts.PathBlackhole, facts.PathStranger, facts.PathMisdirected, facts.PathUnproven, facts.PathBroken,
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
					Peer: "w2", To: "10.0.0.2", Port: 40000, Outcome: facts.PathBroken, Seconds: 3,
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

// TestUnmet: a meeting that some did not come to in time is not known where one of all was busy. One at which
// they did not arrive for another reason is.
func TestUnmet(t *testing.T) {
	for _, c := range []struct {
		name string
		seen facts.Rendezvous
		busy int // which of three, 0 for none
		want bool
	}{
		{"all met", facts.Rendezvous{}, 3, false},
		{"waited for others", facts.Rendezvous{Failed: facts.HopWait}, 3, true},
		{"waited for others, who had the time", facts.Rendezvous{Failed: facts.HopWait}, 0, false},
		{"the store is silent", facts.Rendezvous{Failed: facts.HopValidate, Outcome: facts.PathSilent}, 3, true},
		{"the store is silent and had the time", facts.Rendezvous{Failed: facts.HopValidate, Outcome: facts.PathSilent}, 0, false},
		{"nobody answers the call", facts.Rendezvous{Failed: facts.HopConnect, Outcome: facts.PathDropped}, 3, false},
		{"nobody answers the call of one who is busy", facts.Rendezvous{Failed: facts.HopConnect, Outcome: facts.PathDropped}, 1, false},
		{"nobody listens", facts.Rendezvous{Failed: facts.HopConnect, Outcome: facts.PathRefused}, 3, false},
		{"somebody else's store", facts.Rendezvous{Failed: facts.HopValidate, Outcome: facts.PathStranger}, 3, false},
		{"no name", facts.Rendezvous{Failed: facts.HopResolve}, 3, false},
	} {
		lost := []time.Duration{0, 0, 0}
		if c.busy > 0 {
			lost[c.busy-1] = toil
		}
		all, before := busyFor(toil+second/2, lost...)
		if err := before.unmet(c.seen, all); errors.Is(err, remote.ErrNoAnswer) != c.want || (err == nil) == c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestUndecided: who could not come for a reason of its own kept nobody waiting by being busy.
func TestUndecided(t *testing.T) {
	all, _ := busyFor(second, 0, 0, 0, 0, 0)
	seen := []facts.Rendezvous{
		{Failed: facts.HopWait},
		{Failed: facts.HopConnect, Outcome: facts.PathUnroutable},
		{Failed: facts.HopValidate, Outcome: facts.PathSilent},
		{},
		{},
	}
	lost := []error{nil, nil, nil, nil, remote.ErrNoAnswer}
	if got := undecided(all, seen, lost); !slices.Equal(got, members{all[0], all[2], all[4]}) {
		t.Errorf("%d are taken for late", len(got))
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
