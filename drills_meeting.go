package preflight

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"preflight/drill"
	"preflight/facts"
	"preflight/launch"
)

const (
	// serveTime is what a node gets to bind the store's port, joinTime what
	// everybody gets for the rendezvous, and againTime for a second one at another
	// address.
	serveTime = 500 * time.Millisecond
	joinTime  = 2500 * time.Millisecond
	againTime = 1500 * time.Millisecond
)

// gathering is one rendezvous to be tried: of everybody, at one endpoint.
type gathering struct {
	launch.Meeting
	section facts.Section
	into    func(*member) **facts.Rendezvous
	token   string
	limit   time.Duration
}

// meetingPlace is node 0 and where the ranks will meet. Where they will not,
// the rendezvous is not tried.
func (d *drills) meetingPlace() (first *member, planned launch.Meeting) {
	first = d.crew.named(d.fleet.Nodes[0].Name)
	if first == nil {
		d.fleet.NotTried[facts.SectionRendezvous] = fmt.Sprintf("node 0 (%s) was not reached, and nobody else serves", d.fleet.Nodes[0].Name)
		return nil, planned
	}
	planned = d.Plan.Prediction.Meeting(first.Node)
	switch {
	case planned.Error != "":
		d.fleet.NotTried[facts.SectionRendezvous] = "there is nowhere to meet: see master-address"
	case planned.Port == 0:
		d.fleet.NotTried[facts.SectionRendezvous] = "torchrun will choose a free port itself"
	}
	return first, planned
}

// meet runs the rendezvous drill at the endpoint the ranks will be given. Where
// it does not bring everybody together and node 0 has an address that leads to
// its peers, it is tried there too, so that what is advised was tried.
func (d *drills) meet(ctx context.Context, first *member, planned launch.Meeting) {
	ctx, cancel := context.WithCancel(ctx) // ends the stores
	defer cancel()
	stores, lost := d.serve(ctx, planned, first.Node, nil)
	if lost != "" {
		for _, m := range d.crew {
			m.miss(facts.SectionRendezvous, "%s", lost)
		}
		return
	}
	d.gather(ctx, stores, gathering{
		Meeting: planned, section: facts.SectionRendezvous, token: "ranks", limit: joinTime,
		into: func(m *member) **facts.Rendezvous { return &m.Rendezvous },
	})
	peer := launch.PeerAddress(first.Node)
	switch {
	case d.complete() && d.Plan.Prediction.Rendezvous == launch.RendezvousC10d:
		d.meetAgain(ctx)
	case !d.complete() && !unserved(stores) && peer.Address != "" && peer.Address != planned.Host:
		other := launch.Meeting{Host: peer.Address, Port: planned.Port}
		if stores, lost = d.serve(ctx, other, first.Node, stores); lost != "" {
			return
		}
		d.gather(ctx, stores, gathering{
			Meeting: other, section: facts.SectionPeerRendezvous, token: "peers", limit: againTime,
			into: func(m *member) **facts.Rendezvous { return &m.PeerRendezvous },
		})
	}
}

// complete is whether the rendezvous of the ranks brought everybody together.
func (d *drills) complete() bool {
	return !slices.ContainsFunc(d.crew, func(m *member) bool { return m.Rendezvous == nil || m.Rendezvous.Failed != "" })
}

// serve has whoever holds itself for the host serve a store, until ctx ends;
// those who already do go on. It returns what is known of every member before it
// joins, or who was lost and how: then nothing is known of anybody.
func (d *drills) serve(ctx context.Context, meeting launch.Meeting, first *facts.Node, already []facts.Rendezvous) (known []facts.Rendezvous, lost string) {
	generation := facts.GenerationPings
	if first.Python != nil && first.Python.Torch != nil {
		generation = launch.GenerationOf(first.Python.Torch.Version)
	}
	known = make([]facts.Rendezvous, len(d.crew))
	losses := make([]error, len(d.crew))
	d.crew.each(func(i int, m *member) {
		serves, why := d.Plan.Prediction.Serves(meeting, m.Node, first)
		known[i] = facts.Rendezvous{Serves: serves, ServesWhy: why, Generation: generation}
		if !serves || already != nil && already[i].Serves {
			return
		}
		_, err := stand[int](ctx, m.agent, methodServe, drill.Host{
			Token: d.token, Node: m.Name, Port: meeting.Port, Generation: generation,
		}, serveTime)
		switch {
		case isLost(err):
			losses[i] = err
			learn(m, &m.Rendezvous, facts.SectionRendezvous, facts.Rendezvous{}, err)
		case err != nil:
			known[i].Failed, known[i].Error = facts.HopServe, err.Error()
		}
	})
	if at := slices.IndexFunc(losses, func(err error) bool { return err != nil }); at >= 0 {
		return nil, fmt.Sprintf("%s was to serve the store: %s", d.crew[at].Name, lostReason(losses[at]))
	}
	return known, ""
}

// unserved is whether a store that should be there is not.
func unserved(stores []facts.Rendezvous) bool {
	return slices.ContainsFunc(stores, func(r facts.Rendezvous) bool { return r.Failed == facts.HopServe })
}

// gather has everybody join at one endpoint, once the stores are known.
func (d *drills) gather(ctx context.Context, stores []facts.Rendezvous, g gathering) {
	var hosts []*member
	for i, m := range d.crew {
		if stores[i].Serves {
			hosts = append(hosts, m)
		}
	}
	d.during(ctx, Event{Phase: Phase(g.section)}, g.limit, func(ctx context.Context, i int, m *member) error {
		seen := stores[i]
		seen.Endpoint = g.endpoint()
		if unserved(stores) {
			// Whoever holds the port is not ours to call: it may be a running job.
			if seen.Failed == "" {
				seen.Failed, seen.Error = facts.HopWait, "the store could not be served"
			}
			learn(m, g.into(m), g.section, seen, nil)
			return nil
		}
		joined, err := d.join(ctx, m, g, seen.Generation, d.storesFor(m, hosts))
		joined.Endpoint, joined.Generation = seen.Endpoint, seen.Generation
		joined.Serves, joined.ServesWhy = seen.Serves, seen.ServesWhy
		learn(m, g.into(m), g.section, joined, err)
		return err
	})
	d.nameMissing(g)
}

// storesFor is every address at which a joiner finds one of those who serve, and
// nobody else: those that only they hold, and for themselves also the others.
func (d *drills) storesFor(joiner *member, hosts []*member) (addresses []string) {
	for _, host := range hosts {
		if host.Net == nil {
			continue
		}
		for _, i := range host.Net.Interfaces {
			for _, text := range i.Addresses {
				prefix, err := netip.ParsePrefix(text)
				address := prefix.Addr()
				if err == nil && (joiner == host || !address.IsLoopback() && d.shared[address] == 0) {
					addresses = append(addresses, address.String())
				}
			}
		}
	}
	return addresses
}

func (g gathering) endpoint() string {
	if address, err := netip.ParseAddr(g.Host); err == nil && address.Is6() {
		return fmt.Sprintf("[%s]:%d", g.Host, g.Port)
	}
	return fmt.Sprintf("%s:%d", g.Host, g.Port)
}

// join has one member join, which its caller bounds. own are the addresses of those who serve: whoever
// is met elsewhere may be a running job, and is asked with care.
func (d *drills) join(ctx context.Context, m *member, g gathering, generation facts.Generation, own []string) (facts.Rendezvous, error) {
	return ask[facts.Rendezvous](ctx, m.agent, methodJoin, drill.Join{
		Token: d.token + "/" + g.token, Node: m.Name, Host: g.Host, Port: g.Port,
		World: len(d.crew), Generation: generation, Deadline: g.limit, Own: own,
	})
}

// nameMissing tells those who served whom they waited for.
func (d *drills) nameMissing(g gathering) {
	var missing []string
	for _, m := range d.crew {
		if seen := *g.into(m); seen == nil || seen.Joined == 0 {
			missing = append(missing, m.Name)
		}
	}
	for _, m := range d.crew {
		if seen := *g.into(m); seen != nil && seen.Serves && seen.Failed == facts.HopWait {
			seen.Missing = missing
		}
	}
}

// meetAgain is the second meeting of torchrun's c10d mode: group rank 0 opens
// a new store on a new port and publishes its own name.
func (d *drills) meetAgain(ctx context.Context) {
	host, fqdn := d.Plan.Prediction.NextMeeting(d.crew.nodes())
	if host == nil {
		return
	}
	m := d.crew.named(host.Name)
	generation := m.Rendezvous.Generation
	port, err := stand[int](ctx, m.agent, methodServe, drill.Host{Token: d.token, Node: m.Name, Generation: generation}, serveTime)
	if err != nil {
		m.Rendezvous.Next = &facts.Rendezvous{Endpoint: fqdn, Serves: true, Generation: generation, Failed: facts.HopServe, Error: err.Error()}
		return
	}
	next := gathering{Meeting: launch.Meeting{Host: fqdn, Port: port}, token: "next", limit: againTime}
	d.during(ctx, Event{Phase: MeetingAgain}, next.limit, func(ctx context.Context, _ int, joiner *member) error {
		joined, err := d.join(ctx, joiner, next, generation, d.storesFor(joiner, []*member{m}))
		joined.Endpoint, joined.Generation, joined.Serves = next.endpoint(), generation, joiner == m
		if err != nil {
			joined.Failed, joined.Error = facts.HopWait, err.Error()
		}
		joiner.Rendezvous.Next = &joined
		return err
	})
}
