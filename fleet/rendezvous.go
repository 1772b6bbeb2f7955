// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"preflight/agent"
	"preflight/drill"
	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/launch"
	"preflight/launch/nccl"
	"preflight/remote"
)

const (
	// serveTime is how long a node may take to bind the store's port. againTime is the time limit
	// for a second rendezvous at another address.
	serveTime = 500 * time.Millisecond
	againTime = 1500 * time.Millisecond
	// turnTime is how long to wait for another preflight that uses the port, but no longer than
	// half of the node's time limit. The other preflight usually uses the port for milliseconds, or
	// for a few seconds if one of its nodes is silent.
	turnTime = 10 * time.Second
	// turnAgain is the interval at which a waiting node reports that it still waits. A frozen node
	// does not report.
	turnAgain = 250 * time.Millisecond
)

// attempt is one rendezvous of all members at one endpoint.
type attempt struct {
	launch.Endpoint
	section facts.Section
	into    func(*member) **facts.Rendezvous
	phase   Phase
	name    string // prefix of the attempt's keys in the store
	limit   time.Duration
}

func (a attempt) endpoint() string {
	return net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
}

func (r *run) noRendezvous() string {
	first := r.members.named(r.fleet.Nodes[0].Name)
	if first == nil {
		return fmt.Sprintf("node 0 (%s) was not reached, and no other node serves the store", r.fleet.Nodes[0].Name)
	}
	switch planned := r.Prediction.Endpoint(first.Node); {
	case planned.Error != "":
		return "the rendezvous address is unknown: see master-address"
	case planned.Port == 0:
		return "torchrun will choose a free port itself"
	}
	return ""
}

// rendezvous tries the endpoint that the ranks will get, with all members. If some members do not
// meet there and node 0 has an address that leads to its peers, rendezvous tries that address as
// well. So preflight only advises addresses that it has tried.
func (r *run) rendezvous(ctx context.Context, d Drill) {
	serving, leave := context.WithCancel(ctx) // leave ends the stores
	defer leave()
	first := r.members.named(r.fleet.Nodes[0].Name).Node
	ranks := attempt{
		Endpoint: r.Prediction.Endpoint(first), section: d.Section, phase: d.Phase, name: "ranks", limit: d.Limit,
		into: func(m *member) **facts.Rendezvous { return &m.Rendezvous },
	}
	stores, served := r.serve(serving, ranks, first, nil)
	if !served {
		return
	}
	defer r.tellRanks()
	complete := r.join(ctx, stores, ranks)
	peer := nccl.PeerAddress(first)
	if !complete && !unserved(stores) && peer.Address != "" && peer.Address != ranks.Host {
		peers := attempt{
			Endpoint: launch.Endpoint{Host: peer.Address, Port: ranks.Port}, section: facts.SectionPeerRendezvous, phase: rendezvousAgain, name: "peers", limit: againTime,
			into: func(m *member) **facts.Rendezvous { return &m.PeerRendezvous },
		}
		if again, served := r.serve(serving, peers, first, stores); served {
			r.join(ctx, again, peers)
		}
	}
	if complete && r.Prediction.Rendezvous == launch.RendezvousC10d {
		leave() // another preflight may be waiting for the port
		r.joinNext(ctx, stores[0].Generation)
	}
}

// tellRanks stores on each serving node which ranks of a real launch called it.
func (r *run) tellRanks() {
	for _, m := range r.members {
		m.mu.Lock()
		if m.Rendezvous != nil {
			m.Rendezvous.Ranks = m.ranks
		}
		m.mu.Unlock()
	}
}

// serve makes every member that considers itself the host serve a store, until ctx ends. Members
// that already serve continue. serve returns what is known about every member before that member
// joins. If a serving member is lost, nothing is known about any member: the section is missing and
// served is false.
func (r *run) serve(ctx context.Context, a attempt, first *facts.Node, already []facts.Rendezvous) (known []facts.Rendezvous, served bool) {
	generation := facts.GenerationPings
	if first.Python != nil && first.Python.Torch != nil {
		generation = launch.StoreGeneration(first.Python.Torch.Version)
	}
	known = make([]facts.Rendezvous, len(r.members))
	losses := make([]error, len(r.members))
	r.members.each(func(m *member) {
		i := m.position
		serves, why := r.Prediction.Serves(a.Endpoint, m.Node, first)
		known[i] = facts.Rendezvous{Serves: serves, ServesWhy: why, Generation: generation}
		if !serves || already != nil && already[i].Serves {
			return
		}
		serving, waited, err := r.serveAt(ctx, m, drill.Host{Token: r.token, Node: m.Name, Port: a.Port, Generation: generation})
		known[i].Waited = waited.Seconds()
		switch {
		case isLost(err):
			losses[i] = err
			learn(m, a.into(m), a.section, facts.Rendezvous{}, err)
		case err != nil:
			known[i].Failed, known[i].Error = facts.HopServe, err.Error()
		case serving.Taken != nil:
			known[i].Failed, known[i].Outcome, known[i].Error = facts.HopServe, facts.PathTaken, serving.Taken.Error()
		}
	})
	lost := slices.IndexFunc(losses, func(err error) bool { return err != nil })
	if lost < 0 {
		return known, true
	}
	for _, m := range r.members {
		m.miss(a.section, "%s should have served the store: %s", r.members[lost].Name, lostReason(losses[lost]))
	}
	return nil, false
}

// serveAt makes one member serve a store, as soon as no other preflight uses the port. waited is
// how long another preflight has used the port during the wait.
func (r *run) serveAt(ctx context.Context, m *member, host drill.Host) (serving drill.Serving, waited time.Duration, err error) {
	host.Patience = turnAgain
	for range max(1, min(turnTime, r.Timeout/2)/turnAgain) { // the loop is limited in case the node reports at once and does not wait
		serving, err = agent.Serve.Start(ctx, m.agent, host, turnAgain+serveTime+r.crowd(), func(s drill.Serving) { m.meet(s.Ranks) })
		waited += serving.Waited
		if err != nil || serving.Taken == nil {
			break
		}
	}
	return serving, waited, err
}

// meet records the addresses from which ranks of a real launch called this serving node.
func (m *member) meet(ranks []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ranks = ranks
}

func unserved(stores []facts.Rendezvous) bool {
	return slices.ContainsFunc(stores, func(r facts.Rendezvous) bool { return r.Failed == facts.HopServe })
}

// join makes all members join at one endpoint, once the stores are known. It reports whether all
// members met.
func (r *run) join(ctx context.Context, stores []facts.Rendezvous, a attempt) (complete bool) {
	hosts := r.members.only(func(m *member) bool { return stores[m.position].Serves })
	seen, lost, w := make([]facts.Rendezvous, len(r.members)), make([]error, len(r.members)), hostsys.BeginWait()
	nowhere := unserved(stores)
	r.each(ctx, a.phase, r.members, a.limit, func(ctx context.Context, m *member) error {
		store, joined := stores[m.position], &seen[m.position]
		if nowhere {
			// Another process uses the port. It may be a running job, so preflight does not call
			// it.
			if *joined = store; store.Failed == "" {
				joined.Failed, joined.Error = facts.HopWait, "the store could not be served"
			}
		} else {
			*joined, lost[m.position] = r.joinFrom(ctx, m, a, store.Generation, r.storesFor(m, hosts))
			joined.Serves, joined.ServesWhy, joined.Waited = store.Serves, store.ServesWhy, store.Waited
		}
		joined.Endpoint, joined.Generation = a.endpoint(), store.Generation
		return lost[m.position]
	})
	complete = true
	var missing []string // the nodes for which the serving members waited
	for i, m := range r.members {
		complete = complete && lost[i] == nil && seen[i].Failed == ""
		if lost[i] != nil || seen[i].Joined == 0 {
			missing = append(missing, m.Name)
		}
	}
	unmet := r.unmet(seen, lost, w)
	for i, m := range r.members {
		if seen[i].Serves && seen[i].Failed == facts.HopWait {
			seen[i].Missing = missing
		}
		if lost[i] == nil && !nowhere && unmet != "" && isLate(seen[i]) {
			lost[i] = fmt.Errorf("%w in time: %s", remote.ErrNoAnswer, unmet)
		}
		learn(m, a.into(m), a.section, seen[i], lost[i])
	}
	return complete
}

// isLate reports whether a member failed to complete a rendezvous in time. Being late says nothing
// about the reason.
func isLate(seen facts.Rendezvous) bool {
	return seen.Failed == facts.HopWait || seen.Outcome == facts.PathSilent || seen.Outcome == facts.PathUntried
}

// unmet returns why late members prove nothing: the launching machine asked them too late, or one
// of them was too busy. It returns "" if all members had enough time.
func (r *run) unmet(seen []facts.Rendezvous, lost []error, w hostsys.Wait) string {
	var late members
	for i, m := range r.members {
		if lost[i] == nil && seen[i].Outcome == facts.PathUntried {
			return m.Name + ": " + seen[i].Error
		}
		if lost[i] != nil || isLate(seen[i]) {
			late = append(late, m)
		}
	}
	return busy(w, late...)
}

// storesFor returns every address at which a joiner finds one of the serving members and no other
// machine. These are the addresses that only serving members have. If the joiner itself serves, its
// own shared addresses also count.
func (r *run) storesFor(joiner *member, hosts []*member) (addresses []string) {
	for _, host := range hosts {
		if host.Net == nil {
			continue
		}
		for _, i := range host.Net.Interfaces {
			for _, text := range i.Addresses {
				prefix, err := netip.ParsePrefix(text)
				address := prefix.Addr()
				if err == nil && (joiner == host || !address.IsLoopback() && r.shared[address] == 0) {
					addresses = append(addresses, address.String())
				}
			}
		}
	}
	return addresses
}

// joinFrom makes one member join; the caller sets the time limit. own lists the addresses of the
// serving members. A store at another address may be a running job, so the member sends it only
// harmless requests.
func (r *run) joinFrom(ctx context.Context, m *member, a attempt, generation facts.Generation, own []string) (facts.Rendezvous, error) {
	return agent.Join.Ask(ctx, m.agent, drill.Join{
		Token: r.token + "/" + a.name, Node: m.Name, Host: a.Host, Port: a.Port,
		World: len(r.members), Generation: generation, Deadline: a.limit, Own: own,
	})
}

// joinNext performs the second rendezvous of torchrun's c10d mode. In it, group rank 0 opens a new
// store on a new port and publishes its own name.
func (r *run) joinNext(ctx context.Context, generation facts.Generation) {
	ctx, cancel := context.WithCancel(ctx) // cancel ends the store
	defer cancel()
	host, fqdn := r.Prediction.SecondRendezvous(r.members.nodes())
	if host == nil {
		return
	}
	server := r.members.named(host.Name)
	meet := func(m *member, seen facts.Rendezvous) {
		if m.Rendezvous != nil {
			m.Rendezvous.Next = &seen
		}
	}
	serving, err := agent.Serve.Start(ctx, server.agent, drill.Host{Token: r.token, Node: server.Name, Generation: generation}, serveTime+r.crowd(), nil)
	if err != nil {
		meet(server, facts.Rendezvous{Endpoint: fqdn, Serves: true, Generation: generation, Failed: facts.HopServe, Error: err.Error()})
		return
	}
	next := attempt{Endpoint: launch.Endpoint{Host: fqdn, Port: serving.Port}, name: "next", limit: againTime}
	r.each(ctx, rendezvousAgain, r.members, next.limit, func(ctx context.Context, m *member) error {
		joined, err := r.joinFrom(ctx, m, next, generation, r.storesFor(m, []*member{server}))
		joined.Endpoint, joined.Generation, joined.Serves = next.endpoint(), generation, m == server
		if err != nil {
			joined.Failed, joined.Error = facts.HopWait, err.Error()
		}
		meet(m, joined)
		return err
	})
}
