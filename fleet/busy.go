// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"time"

	"preflight/facts"
	"preflight/internal/text"
)

// slack is how much longer than a limit whoever takes part in a drill may take: what a node
// waits for is done by others, and the slowest of them tells how little of the time it can
// work. With nobody busy it is nothing.
func (r *run) slack(limit time.Duration) time.Duration {
	slowest := 1.0
	for _, m := range r.members {
		slowest = min(slowest, m.agent.Pace())
	}
	return time.Duration(float64(limit)/slowest) - limit
}

// fairTime is for how long a node must have been able to work while others waited for it, for their having
// waited in vain to say more of it than that it is busy.
const fairTime = time.Second

// losses are for how long each member had been kept from its work when a drill began.
type losses struct {
	began time.Time
	of    map[*member]time.Duration
}

func (r *run) losses() losses {
	so := losses{time.Now(), make(map[*member]time.Duration, len(r.members))}
	for _, m := range r.members {
		so.of[m] = m.agent.Lost()
	}
	return so
}

// busy says of a member that it has hardly come to its work since, and nothing of any other.
func (before losses) busy(m *member) string {
	already, known := before.of[m]
	if !known {
		return ""
	}
	passed, lost := time.Since(before.began), m.agent.Lost()-already
	if lost < fairTime || passed-lost >= fairTime {
		return ""
	}
	words := fmt.Sprintf("%s is busy: it was kept from its work for %s", m.Name, text.Duration(lost.Seconds()))
	if host := m.Host; host != nil && host.Load != nil && host.CPU.Usable > 0 {
		words += fmt.Sprintf(", at a load of %.0f on %d processors", *host.Load, host.CPU.Usable)
	}
	return words
}

// busiest is that of the first of several who is.
func (before losses) busiest(all members) string {
	for _, m := range all {
		if words := before.busy(m); words != "" {
			return words
		}
	}
	return ""
}

// isTimed is whether an outcome is only that the peer's process did not answer in time. That nothing answers a
// call at all is none: the kernel takes calls, however busy who listens is.
func isTimed(outcome facts.PathOutcome) bool {
	return outcome == facts.PathSilent || outcome == facts.PathBlackhole
}

// excuse takes the blame off a peer that was too busy to answer in time.
func (before losses) excuse(path *facts.Path, caller, peer *member) {
	if !isTimed(path.Outcome) {
		return
	}
	if words := before.busiest(members{peer, caller}); words != "" {
		*path = facts.Path{Peer: path.Peer, To: path.To, Port: path.Port, Outcome: facts.PathUntried, Error: words, Seconds: path.Seconds}
	}
}

// excuseAll does that for all calls of a member that failed.
func (before losses) excuseAll(failed []facts.Path, caller *member, all members) {
	for i := range failed {
		before.excuse(&failed[i], caller, all.named(failed[i].Peer))
	}
}

// forgive takes the logins for untried in which nobody answered in time, and one of the two was too busy to.
func (before losses) forgive(logins *facts.Logins, caller *member, all members) {
	logins.Failed = slices.DeleteFunc(logins.Failed, func(login facts.Login) bool {
		peer := all.named(login.Peer)
		busy := login.Cause == "timeout" && peer != nil && before.busiest(members{peer, caller}) != ""
		if busy {
			logins.Untried = append(logins.Untried, login.Peer)
		}
		return busy
	})
}

// isLate is whether a member did not get through a meeting in time, which says nothing of why.
func isLate(seen facts.Rendezvous) bool {
	return seen.Failed == facts.HopWait || isTimed(seen.Outcome) || seen.Outcome == facts.PathUntried
}

// undecided are those who were late, or told nothing. Who could not come for a reason of its own kept no
// other from the meeting by being busy.
func undecided(all members, seen []facts.Rendezvous, lost []error) members {
	return all.only(func(m *member) bool { return lost[m.turn] != nil || isLate(seen[m.turn]) })
}

// unmet is why that some were late for a meeting says nothing of them: one had no time to come, or to
// answer. It is "" where all had.
func (before losses) unmet(all members, seen []facts.Rendezvous, lost []error) string {
	late := undecided(all, seen, lost)
	for _, m := range late {
		if seen[m.turn].Outcome == facts.PathUntried {
			return m.Name + ": " + seen[m.turn].Error
		}
	}
	return before.busiest(late)
}
