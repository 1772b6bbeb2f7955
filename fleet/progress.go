// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"sync"
	"time"

	"preflight/remote"
)

// Phase is a part of a run that many nodes go through side by side. Several may
// be under way at once: who is reached is looked at while others are not reached yet.
type Phase struct {
	Label string // in the words of the report, and unlike any other's
	// Together is set where a node that is slow may be well, and wait for one that
	// is not.
	Together bool
}

// The phases of looking; those of the drills stand in their table.
var (
	Reaching = Phase{Label: "log in"} // from the name to an agent that talks
	Looking  = Phase{Label: "look"}   // the agent reports its node
	Asking   = Phase{Label: "ask"}    // the agent says who is at an endpoint
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

func (job Job) emit(event Event) {
	if job.Progress != nil {
		job.Progress(event)
	}
}

// opening reports that a phase begins when the first of so many nodes comes to it, and no
// second time.
func (job Job) opening(phase Phase, nodes int) func() {
	return sync.OnceFunc(func() { job.emit(Event{Phase: phase, Step: Began, Nodes: nodes}) })
}

// ended reports that a node is through with a phase, or was lost in it. Of one that
// our own user did not wait for it reports nothing: it came to no end.
func (job Job) ended(phase Phase, node string, err error) {
	failure := (*remote.Error)(nil)
	switch {
	case !errors.As(err, &failure):
		job.emit(Event{Phase: phase, Step: Ended, Node: node})
	case failure.Cause != remote.Interrupted:
		job.emit(Event{Phase: phase, Step: Lost, Node: node, Err: failure})
	}
}
