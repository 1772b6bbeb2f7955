package preflight

import (
	"context"
	"math/rand/v2"
	"time"

	"preflight/drill"
	"preflight/facts"
)

const (
	// allLogins is up to how many nodes everybody logs in to everybody; above
	// it, to the next one and to one more by chance.
	allLogins = 8
	// loginTime is what a node gets to log in to its peers; what it does not come
	// to in that time is not known.
	loginTime = 4 * time.Second
)

// logIn has every node log in to its peers by its own ssh, as MPI launchers do.
func (d *drills) logIn(ctx context.Context) {
	n := len(d.crew)
	d.during(ctx, Event{Phase: LoggingIn}, loginTime, func(ctx context.Context, i int, m *member) error {
		var peers []string
		for j, peer := range d.crew {
			if i != j && n <= allLogins {
				peers = append(peers, peer.Name)
			}
		}
		if n > allLogins {
			peers = []string{d.crew[(i+1)%n].Name, d.crew[(i+2+rand.IntN(n-2))%n].Name}
		}
		if len(peers) == 0 {
			m.miss(facts.SectionLogins, "no other node was reached")
			return nil
		}
		seen, err := ask[facts.Logins](ctx, m.agent, methodLogin, drill.Logins{Peers: peers, Port: d.Plan.Prediction.SSHPort, Deadline: loginTime})
		learn(m, &m.Logins, facts.SectionLogins, seen, err)
		return err
	})
}
