package fleet

import (
	"fmt"
	"preflight/facts"
	"preflight/remote"
	"time"
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

// busyTime is how much of a drill a node may miss before the others' having waited for it in vain says
// nothing of it but that.
const busyTime = time.Second

// losses are for how long each member has been kept from its work so far.
type losses map[*member]time.Duration

func (r *run) losses() losses {
	so := make(losses, len(r.members))
	for _, m := range r.members {
		so[m] = m.agent.Lost()
	}
	return so
}

// busy says of a member that has been kept from its work since, and nothing of any other.
func (before losses) busy(m *member) string {
	already, known := before[m]
	if !known || m.agent.Lost()-already < busyTime {
		return ""
	}
	lost := m.agent.Lost() - already
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

// isTimed is whether an outcome is only that a time was up.
func isTimed(outcome facts.PathOutcome) bool {
	return outcome == facts.PathDropped || outcome == facts.PathSilent || outcome == facts.PathBlackhole
}

// excuse takes the blame off a peer that was too busy to answer in time.
func (before losses) excuse(path *facts.Path, caller, peer *member) {
	if !isTimed(path.Outcome) {
		return
	}
	if words := before.busiest(members{peer, caller}); words != "" {
		*path = facts.Path{Peer: path.Peer, To: path.To, Port: path.Port, Outcome: facts.PathBroken, Error: words, Seconds: path.Seconds}
	}
}

// unmet is why nothing is known of a meeting that a member did not get through in time.
func (before losses) unmet(all members, seen facts.Rendezvous) error {
	if seen.Failed != facts.HopWait && !isTimed(seen.Outcome) {
		return nil
	}
	if words := before.busiest(all); words != "" {
		return fmt.Errorf("%w in time: %s", remote.ErrNoAnswer, words)
	}
	return nil
}
