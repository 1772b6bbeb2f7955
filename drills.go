package preflight

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"preflight/checks"
	"preflight/facts"
	"preflight/launch"
)

// drills is what is tried between the nodes once all have been probed.
type drills struct {
	Job
	fleet  *facts.Fleet
	crew   crew
	token  string             // tells our calls from strangers'
	shared map[netip.Addr]int // addresses that several machines hold
}

// drill has the nodes call each other. Nodes that were lost take no part, and
// those that are lost meanwhile cost only themselves.
func (job Job) drill(ctx context.Context, fleet *facts.Fleet, crew crew) {
	d := drills{
		Job: job, fleet: fleet, crew: crew,
		token: rand.Text(), shared: launch.SharedAddresses(crew.nodes()),
	}
	fleet.NotTried = d.notTried()
	var all sync.WaitGroup
	met, called := make(chan struct{}), make(chan struct{})
	first, planned := d.meetingPlace()
	all.Go(func() {
		defer close(met)
		if d.tries(facts.SectionRendezvous) {
			d.meet(ctx, first, planned)
		}
	})
	all.Go(func() {
		defer close(called)
		await(met)
		d.callEachOther(ctx)
	})
	all.Go(func() {
		await(called)
		if d.tries(facts.SectionLogins) {
			d.logIn(ctx)
		}
	})
	if d.tries(facts.SectionRehearsal) {
		all.Go(func() { d.rehearse(ctx) })
	}
	all.Wait()
}

// patience is how long one drill lets the one before it run alone. The times
// that a healthy fleet is told are then its network's and not those of nodes busy
// with each other's logins; a drill that waits for a sick node holds up nobody.
const patience = 500 * time.Millisecond

func await(before <-chan struct{}) {
	select {
	case <-before:
	case <-time.After(patience):
	}
}

// tries is whether a section is to be tried.
func (d *drills) tries(section facts.Section) bool {
	_, not := d.fleet.NotTried[section]
	return !not
}

// pdshLogins is up to how many nodes logins between them are tried when only
// an MPI launcher would need them: each costs both ends a whole ssh session.
const pdshLogins = 16

// notTried says what will not be tried, and why that is right.
func (d *drills) notTried() map[facts.Section]string {
	not := d.Plan.unneeded()
	for _, section := range drillSections {
		if !d.wanted(section) {
			not[section] = checks.SwitchedOff
		}
	}
	switch by := d.Plan.Prediction.StartedBy(); {
	case by.Name == "":
		not[facts.SectionLogins] = "the command is typed on every node, and needs no ssh between them"
	case !by.SSH:
		not[facts.SectionLogins] = "--launcher " + by.Name + " starts ranks without ssh"
	case !by.NodesLogIn && len(d.fleet.Nodes) > pdshLogins && !slices.Contains(d.Policy.Only, "ssh-between-nodes"):
		not[facts.SectionLogins] = fmt.Sprintf("%s logs in from here only, and %d nodes are many: --only ssh-between-nodes tries it", by.Name, len(d.fleet.Nodes))
	}
	if why := d.noRehearsal(); why != "" {
		not[facts.SectionRehearsal] = why
	}
	if d.Throughput == 0 {
		not[facts.SectionThroughput] = "only with --throughput"
	}
	alone := map[bool]string{true: "a single node has no peers", false: "only one node was reached"}
	if len(d.fleet.Nodes) == 1 || len(d.crew) == 1 { // that the others were not reached is said elsewhere
		for _, section := range []facts.Section{facts.SectionMesh, facts.SectionLogins, facts.SectionThroughput} {
			not[section] = alone[len(d.fleet.Nodes) == 1]
		}
	}
	return not
}

// wanted is whether any check that runs needs the section.
func (d *drills) wanted(section facts.Section) bool {
	return slices.ContainsFunc(checks.Catalogue, func(check checks.Check) bool {
		return slices.Contains(check.Needs, section) && !d.Policy.SwitchesOff(check.ID)
	})
}

// within bounds one request to an agent: a little more than the agent has, so
// that what it has to say of a hang still arrives.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, limit+answerTime)
}
