package preflight

import (
	"context"
	"errors"
	"sync"
	"time"

	"preflight/facts"
	"preflight/remote"
)

// Phase is a part of a run that many nodes go through side by side. Several may
// be under way at once: who is reached is looked at while others are not reached yet.
type Phase string

const (
	Reaching   Phase = "reach" // from the name to an agent that talks
	Looking    Phase = "look"  // the agent tells of its node
	Asking     Phase = "ask"   // the agent says who is at an endpoint
	Meeting          = Phase(facts.SectionRendezvous)
	Calling          = Phase(facts.SectionMesh)
	LoggingIn        = Phase(facts.SectionLogins)
	Sending          = Phase(facts.SectionThroughput)
	Rehearsing       = Phase(facts.SectionRehearsal) // of no node: this machine does it
	// The second tries, where the first ones are not to be relied on.
	MeetingAgain = Phase(facts.SectionPeerRendezvous)
	CallingAgain = Phase(facts.SectionPeerMesh)
)

// Step is how far a phase is, or one node in it.
type Step string

const (
	Began Step = "began"
	Ended Step = "ended" // whatever came of it
	Lost  Step = "lost"  // the node will take no further part
)

// Event is one step of a run.
type Event struct {
	Phase Phase
	Step  Step
	Node  string // by its hostfile name; "" when the phase itself begins or ends

	Nodes int           // of a phase that begins: how many may take part; some may never come to it
	Takes time.Duration // of a phase that begins: how long its work is meant to last, 0 where it is over when it is done
	Until time.Time     // of a node, or of a phase of no nodes, that begins: when it is given up at the latest
	Err   error         // of a lost node: what took it
}

func (job Job) tell(event Event) {
	if job.Progress != nil {
		job.Progress(event)
	}
}

// opening tells that a phase begins when the first of so many nodes comes to it, and no
// second time.
func (job Job) opening(phase Phase, nodes int) func() {
	return sync.OnceFunc(func() { job.tell(Event{Phase: phase, Step: Began, Nodes: nodes}) })
}

// ended tells that a node is through with a phase, or was lost in it. Of one that
// our own user did not wait for it tells nothing: it came to no end.
func (job Job) ended(phase Phase, node string, err error) {
	failure := (*remote.Error)(nil)
	switch {
	case !errors.As(err, &failure):
		job.tell(Event{Phase: phase, Step: Ended, Node: node})
	case failure.Cause != remote.Interrupted:
		job.tell(Event{Phase: phase, Step: Lost, Node: node, Err: failure})
	}
}

// during has work done for every member at once, each within limit, and tells how
// far that is. phase is the event of its beginning.
func (d *drills) during(ctx context.Context, phase Event, limit time.Duration, work func(context.Context, int, *member) error) {
	phase.Step, phase.Nodes = Began, len(d.crew)
	d.tell(phase)
	d.crew.each(func(i int, m *member) {
		ctx, cancel := within(ctx, limit)
		defer cancel()
		until, _ := ctx.Deadline()
		d.tell(Event{Phase: phase.Phase, Step: Began, Node: m.Name, Until: until})
		d.ended(phase.Phase, m.Name, work(ctx, i, m))
	})
}
