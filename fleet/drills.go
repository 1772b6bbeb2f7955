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

// Drill is a test that the nodes perform with each other after they have been probed.
type Drill struct {
	Section facts.Section // the section that the drill fills in on every node
	Phase   Phase
	// Checks lists the IDs of the checks that need the section. If none of these checks runs, the
	// drill does not run either.
	Checks []string
	// Last is set for a drill that no other drill may disturb. It runs by itself, after all drills
	// without Last.
	Last bool
	// Alone is set for a drill of the launching machine. Its section belongs to that machine and
	// not to any node.
	Alone bool
	// Here is set for a drill that also runs if the only node is the launching machine.
	Here bool
	// Peers is set if a node needs at least one other node for the drill.
	Peers bool
	// After is the drill that must run before this one, or "" for none. Patience is the longest
	// time to wait for that drill; 0 waits until it ends.
	After    facts.Section
	Patience time.Duration
	// Limit is the time limit for each node's part of the drill. It is 0 if the drill sets its own
	// limit.
	Limit time.Duration
	// notTried returns why this launch does not need the drill, or "" if the launch needs it. The
	// function is nil if every launch needs the drill.
	notTried func(*run) string
	// run performs the drill with the members. If a node is lost during the drill, no other node is
	// affected.
	run func(*run, context.Context, Drill)
}

// launching is the name of this machine in messages to users.
const launching = "the launching machine"

// patience is the longest time that most drills wait for the drill in After. They wait so that the
// earlier drill of a healthy fleet measures an idle network. The wait is limited because a sick
// node can keep the earlier drill busy for long. The wait costs a healthy fleet nothing: eight
// nodes meet and call each other in 0.1 s, and log in to each other in seconds.
const patience = 500 * time.Millisecond

// Drills lists all drills. To add a drill, add one row.
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
		Section: facts.SectionShared, Phase: "shared directories", Checks: []string{"shared-directory", "data-shared"}, Peers: true,
		After: facts.SectionRendezvous, Patience: patience, Limit: 7 * time.Second, notTried: (*run).noSharing, run: (*run).shareFiles,
	}, {
		Section: facts.SectionRehearsal, Phase: pdshPhase, Checks: []string{checkRehearsal}, Alone: true,
		notTried: (*run).noRehearsal, run: (*run).rehearsal,
	}, {
		Section: facts.SectionRehearsed, Phase: "rehearsal", Checks: []string{"rehearsal"}, Last: true, Here: true,
		notTried: (*run).noRehearsed, run: (*run).rehearse,
	}, {
		Section: facts.SectionSmoke, Phase: "smoke", Checks: []string{"gpu-computes", "gpu-copies", "collective-node", "collective", "collective-speed"}, Last: true, Here: true,
		notTried: (*run).noSmoke, run: (*run).smoke,
	},
}

// The drills of these checks are expensive on large fleets. On a large fleet they run only if the
// user names the check.
const (
	checkLogins    = "ssh-between-nodes"
	checkRehearsal = "launcher-ready"
)

// meshPhase has a name because throughput may be the first drill to plan the addresses. The phases
// with 2 are second attempts for launches whose ranks use unreliable addresses. These attempts use
// the addresses that lead to the peers. pdsh 2 is the second run of pdsh.
const (
	pdshPhase       Phase = "pdsh"
	pdshAgain       Phase = "pdsh 2"
	meshPhase       Phase = "mesh"
	meshAgain       Phase = "mesh 2"
	rendezvousAgain Phase = "rendezvous 2"
)

// run is the state of one fleet's drills.
type run struct {
	Job                        // Job's prediction is completed with the facts of the nodes that reported
	fleet   *facts.Fleet       // every node, lost or not
	members members            // members lists the nodes that reported, in hostfile order
	token   string             // token distinguishes this run's connections from all others
	shared  map[netip.Addr]int // shared counts the machines that have the same address
	plans   []*addressPlan     // plans lists the mesh's address plans; nil until the members listen
}

func (job Job) newRun(fleet *facts.Fleet) *run {
	if head := job.Head; head != nil { // removes results that an earlier attempt may have left
		head.Rehearsal = nil
		delete(head.Missing, facts.SectionRehearsal)
	}
	return &run{Job: job, fleet: fleet, token: crand.Text()}
}

// assemble sets the values that all drills need, once the members are known.
func (r *run) assemble() {
	r.Prediction = r.Prediction.Resolved(r.fleet.Nodes)
	r.shared = launch.SharedAddresses(r.members.nodes())
	r.fleet.NotTried = r.notTried()
}

// try runs the drills among the members. Without last, it runs all ordinary drills at the same
// time. With last, it runs the drills that no other drill may disturb, one after the other.
func (r *run) try(ctx context.Context, last bool) {
	var all sync.WaitGroup
	defer all.Wait()
	ended := map[facts.Section]chan struct{}{}
	for _, d := range Drills {
		if r.fleet.NotTried[d.Section] == "" {
			ended[d.Section] = make(chan struct{})
		}
	}
	for _, d := range Drills {
		switch {
		case d.Last != last:
		case last && r.fleet.NotTried[d.Section] == "": // a drill may ask for a later one
			d.run(r, ctx, d)
		case !last && ended[d.Section] != nil:
			all.Go(func() {
				defer close(ended[d.Section])
				await(ended[d.After], d.Patience)
				d.run(r, ctx, d)
			})
		}
	}
}

// await waits until end is closed, for no longer than limit. A limit of 0 means no limit. await
// returns at once if end is nil.
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

// notTried maps each section that this launch does not need to try to the reason.
func (r *run) notTried() map[facts.Section]string {
	not := r.unneeded()
	for _, d := range Drills {
		why := ""
		switch nodes := len(r.fleet.Nodes); {
		case !d.Peers:
		case nodes == 1:
			why = "a single node has no peers"
		case len(r.members) == 1: // another finding reports why the others were not reached
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

// switchedOff returns why no check needs a drill, or "" if a check needs it.
func (r *run) switchedOff(d Drill) (why string) {
	for _, check := range d.Checks {
		if why = r.SwitchedOff(check); why == "" {
			return ""
		}
	}
	return why
}

// crowd returns how much longer the members' answers may take because the launching machine asks all
// members at the same time: a second for every 1,000 members.
func (r *run) crowd() time.Duration { return time.Duration(len(r.members)/1000) * time.Second }

// each runs all members' parts of a phase at the same time, each within limit, and emits progress
// events.
func (r *run) each(ctx context.Context, phase Phase, who members, limit time.Duration, work func(context.Context, *member) error) {
	if len(who) > 0 {
		r.emit(Event{Phase: phase, Step: Began, Nodes: len(who)})
	}
	who.each(func(m *member) {
		ctx, cancel := within(ctx, limit+r.crowd())
		defer cancel()
		r.emit(Event{Phase: phase, Step: Began, Node: m.Name})
		r.ended(phase, m.Name, work(ctx, m))
	})
}
