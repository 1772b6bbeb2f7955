// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"sync"

	"preflight/remote"
)

// Phase is a part of a run that many nodes go through side by side. Several may
// be under way at once: who is reached is looked at while others are not reached yet.
// Users see its name, which no other phase has.
type Phase string

// The phases of looking; those of the drills stand in their table.
const (
	Reaching Phase = "log in" // from the name to an agent that talks
	Looking  Phase = "look"   // the agent reports its node
	Asking   Phase = "ask"    // the agent says who is at an endpoint
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

	Nodes int   // of a phase that begins: how many may take part; some may never come to it
	Err   error // of a lost node: what took it
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
