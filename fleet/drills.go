// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"net/netip"
	"sync"
	"time"

	"preflight/facts"
	"preflight/launch"
)

// Drill is something that only trying it shows, once nodes have been probed.
type Drill struct {
	Section facts.Section // that it fills in, of every node
	Phase   Phase
	// Checks are who needs the section, by ID. Where none of them runs, the drill
	// is not tried.
	Checks []string
	// Last is set for a drill that no other may disturb: it runs alone, after all those
	// without Last.
	Last bool
	// Alone is set for what the launching machine tries by itself: the section is
	// its own, and no node's.
	Alone bool
	// Peers is set where a node needs another one.
	Peers bool
	// After is the drill that it lets run before it, "" for none, and Patience for
	// how long at most, 0 being to its end.
	After    facts.Section
	Patience time.Duration
	// Limit is what a node gets for its part, 0 where the drill says.
	Limit time.Duration
	// notTried is why this launch does without it, "" when it does not; nil when
	// no launch does.
	notTried func(*run) string
	// run tries it among the members. A node that is lost meanwhile costs only itself.
	run func(*run, context.Context, Drill)
}

// launching is what a reader knows this machine as.
const launching = "the launching machine"

// patience is how long most drills let the one before them run alone. The times
// measured in a healthy fleet are then its network's and not those of nodes busy
// with each other's work; a drill that waits for a sick node holds up nobody. It costs a healthy
// fleet nothing: eight nodes meet and call each other in 0.1 s, and log in to each other in seconds.
const patience = 500 * time.Millisecond

// Drills are all that there are: the table in which a new one is one row.
var Drills = []Drill{
	{
		Section: facts.SectionRendezvous, Phase: "rendezvous", Checks: []string{"rendezvous"},
		Limit: 2500 * time.Millisecond, notTried: (*run).noRendezvous, run: (*run).rendezvous,
	}, {
		Section: facts.SectionMesh, Phase: meshPhase, Checks: []string{"node-mesh", "path-mtu", "link-counters"}, Peers: true,
		After: facts.SectionRendezvous, Patience: patience, Limit: 4 * time.Second, run: (*run).mesh,
	}, {
		Section: facts.SectionRails, Phase: "rails", Checks: []string{"rail-mesh"}, Peers: true, Last: true,
		Limit: 4 * time.Second, notTried: (*run).noRails, run: (*run).rails,
	}, {
		Section: facts.SectionThroughput, Phase: "throughput", Checks: []string{"throughput"}, Peers: true, Last: true,
		notTried: (*run).noThroughput, run: (*run).throughput,
	}, {
		Section: facts.SectionLogins, Phase: "node logins", Checks: []string{checkLogins}, Peers: true,
		After: facts.SectionMesh, Patience: patience, Limit: 4 * time.Second, notTried: (*run).noLogins, run: (*run).logins,
	}, {
		Section: facts.SectionCallBack, Phase: "call back", Checks: []string{"launcher-callback"},
		After: facts.SectionMesh, Patience: patience, Limit: 4 * time.Second, notTried: (*run).noCallBack, run: (*run).callBack,
	}, {
		Section: facts.SectionHub, Phase: "hub", Checks: []string{"hub-reach"},
		After: facts.SectionMesh, Patience: patience, Limit: 6 * time.Second, notTried: (*run).noHub, run: (*run).hub,
	}, {
		Section: facts.SectionRehearsal, Phase: "pdsh", Checks: []string{checkRehearsal}, Alone: true,
		notTried: (*run).noRehearsal, run: (*run).rehearsal,
	}, {
		Section: facts.SectionSmoke, Phase: "smoke", Checks: []string{"gpu-computes", "gpu-copies", "collective-node", "collective", "collective-speed"}, Last: true,
		notTried: (*run).noSmoke, run: (*run).smoke,
	},
}

// The checks whose drills are dear on large fleets, and tried there only by name.
const (
	checkLogins    = "ssh-between-nodes"
	checkRehearsal = "launcher-ready"
)

// The mesh, which throughput may have listen first, and the second tries, where
// the addresses of the ranks are not to be relied on.
const (
	meshPhase       Phase = "mesh"
	meshAgain       Phase = "mesh 2"
	rendezvousAgain Phase = "rendezvous 2"
)

// run is the drills of one fleet.
type run struct {
	Job                        // its prediction settled by the nodes that reported
	fleet   *facts.Fleet       // every node, lost or not
	members members            // the nodes that reported, in hostfile order
	token   string             // distinguishes our calls from strangers'
	shared  map[netip.Addr]int // addresses that several machines hold
	plans   []*addressPlan     // of the mesh, nil until the members listen
}

func (job Job) newRun(fleet *facts.Fleet) *run {
	if head := job.Head; head != nil { // of a look that was spoilt nothing is kept
		head.Rehearsal = nil
		delete(head.Missing, facts.SectionRehearsal)
	}
	return &run{Job: job, fleet: fleet, token: crand.Text()}
}

// assemble settles what all drills rely on, once the members are known.
func (r *run) assemble() {
	r.Prediction = r.Prediction.Resolved(r.fleet.Nodes)
	r.shared = launch.SharedAddresses(r.members.nodes())
	r.fleet.NotTried = r.notTried()
}

// try has the members try what they will need of each other: all drills at the same time or,
// with last set, one after the other those that no other may disturb.
func (r *run) try(ctx context.Context, last bool) {
	ended := map[facts.Section]chan struct{}{}
	for _, d := range Drills {
		if d.Last == last && r.fleet.NotTried[d.Section] == "" {
			ended[d.Section] = make(chan struct{})
		}
	}
	var all sync.WaitGroup
	for _, d := range Drills {
		if ended[d.Section] == nil {
			continue
		}
		work := func() {
			defer close(ended[d.Section])
			await(ended[d.After], d.Patience)
			d.run(r, ctx, d)
		}
		if last {
			work()
		} else {
			all.Go(work)
		}
	}
	all.Wait()
}

// await waits for what ends, for as long as limit or, with none, to the end. Of
// nothing there is nothing to wait for.
func await(end <-chan struct{}, limit time.Duration) {
	if end == nil {
		return
	}
	var late <-chan time.Time
	if limit > 0 {
		late = time.After(limit)
	}
	select {
	case <-end:
	case <-late:
	}
}

// notTried says what will not be tried, and why that is right.
func (r *run) notTried() map[facts.Section]string {
	not := r.unneeded()
	for _, d := range Drills {
		why := ""
		switch nodes := len(r.fleet.Nodes); {
		case !d.Peers:
		case nodes == 1:
			why = "a single node has no peers"
		case len(r.members) == 1: // that the others were not reached is said elsewhere
			why = "only one node was reached"
		}
		if why == "" && d.notTried != nil {
			why = d.notTried(r)
		}
		if why = cmp.Or(why, r.switchedOff(d)); why != "" {
			not[d.Section] = why
		}
	}
	return not
}

// switchedOff is why no check needs a drill, "" when one does.
func (r *run) switchedOff(d Drill) (why string) {
	for _, check := range d.Checks {
		if why = r.SwitchedOff(check); why == "" {
			return ""
		}
	}
	return why
}

// each has members do their part of a phase at once, each within limit, and reports
// how far that is.
func (r *run) each(ctx context.Context, phase Phase, who members, limit time.Duration, work func(context.Context, *member) error) {
	if len(who) > 0 {
		r.emit(Event{Phase: phase, Step: Began, Nodes: len(who)})
	}
	who.each(func(m *member) {
		ctx, cancel := within(ctx, limit)
		defer cancel()
		r.emit(Event{Phase: phase, Step: Began, Node: m.Name})
		r.ended(phase, m.Name, work(ctx, m))
	})
}
