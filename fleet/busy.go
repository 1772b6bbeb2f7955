package fleet

import (
	"fmt"
	"slices"
	"time"

	"preflight/facts"
	"preflight/remote"
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
// waited in vain to say more of it than that it is busy. Of a longer wait it is a fifth: at a tenth no
// deadline is put off any further (hostsys.AfterFunc), and what a node has lost is known only so far.
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
	if lost < fairTime || passed-lost >= max(fairTime, passed/5) {
		return ""
	}
	words := fmt.Sprintf("%s is busy: it was kept from its work for %s", m.Name, facts.Duration(lost.Seconds()))
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

// doubtful are those who may be to blame for an outcome only by being busy. An answer that does not come in time is one
// of all. That nothing answers a call at all is one of the caller alone, who may not have come to see that something
// did: the kernel takes calls, however busy who listens is.
func doubtful(outcome facts.PathOutcome, caller *member, all members) members {
	switch outcome {
	case facts.PathSilent, facts.PathBlackhole:
		return all
	case facts.PathDropped:
		return members{caller}
	}
	return nil
}

// excuse takes the blame off a peer where it was too busy to answer in time, or its caller to see that.
func (before losses) excuse(path *facts.Path, caller, peer *member) {
	if words := before.busiest(doubtful(path.Outcome, caller, members{peer, caller})); words != "" {
		*path = facts.Path{Peer: path.Peer, To: path.To, Port: path.Port, Outcome: facts.PathBroken, Error: words, Seconds: path.Seconds}
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

// unmet is why nothing is known of a meeting that a member did not get through in time.
func (before losses) unmet(m *member, all members, seen facts.Rendezvous) error {
	if seen.Failed != facts.HopWait {
		all = doubtful(seen.Outcome, m, all)
	}
	if words := before.busiest(all); words != "" {
		return fmt.Errorf("%w in time: %s", remote.ErrNoAnswer, words)
	}
	return nil
}
