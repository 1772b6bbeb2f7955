// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"sync"

	"preflight/remote"
)

// Phase is a part of a run that many nodes go through in parallel. Several phases may be active at
// the same time: nodes that were reached are probed while others are not reached yet. Users see its
// name, which is unique.
type Phase string

// The phases before the drills; those of the drills are in their table.
const (
	Reaching Phase = "log in" // from name lookup to an agent that answers
	Looking  Phase = "look"   // the agent reports its node
	Asking   Phase = "ask"    // the agent reports who answers at an endpoint
)

// Step is how far a phase, or one node in it, has come.
type Step string

const (
	Began Step = "began"
	Ended Step = "ended" // whatever the result
	Lost  Step = "lost"  // the node will take no further part
)

// Event is one step in a run.
type Event struct {
	Phase Phase
	Step  Step
	Node  string // by its hostfile name; "" if the phase itself begins or ends

	Nodes int   // when a phase begins: how many nodes may take part; some may never get there
	Err   error // for a lost node: the reason
}

func (job Job) emit(event Event) {
	if job.Progress != nil {
		job.Progress(event)
	}
}

// opening returns a function that reports the beginning of a phase for this number of nodes. It
// reports it on its first call only.
func (job Job) opening(phase Phase, nodes int) func() {
	return sync.OnceFunc(func() { job.emit(Event{Phase: phase, Step: Began, Nodes: nodes}) })
}

// ended reports that a node has finished a phase or was lost in it. It reports nothing for a node
// that the user interrupted, because that one has not finished.
func (job Job) ended(phase Phase, node string, err error) {
	failure := (*remote.Error)(nil)
	switch {
	case !errors.As(err, &failure):
		job.emit(Event{Phase: phase, Step: Ended, Node: node})
	case failure.Cause != remote.Interrupted:
		job.emit(Event{Phase: phase, Step: Lost, Node: node, Err: failure})
	}
}
