// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"sync"

	"preflight/remote"
)

// Phase is a part of a run that many nodes go through in parallel. Several phases may be active at
// the same time, because the nodes that were reached are probed while others have not been reached
// yet. Users see a phase's name, which is unique.
type Phase string

// These phases come before the drills. The phases of the drills are in the table of drills.
const (
	Reaching Phase = "log in" // from name lookup to an agent that answers
	Looking  Phase = "look"   // the agent reports its node
	Asking   Phase = "ask"    // the agent reports who answers at an endpoint
)

// Step is the progress of a phase, or of one node in a phase.
type Step string

const (
	Began Step = "began"
	Ended Step = "ended" // with success or without
	Lost  Step = "lost"  // the node will take no further part
)

// Event is one step in a run.
type Event struct {
	Phase Phase
	Step  Step
	Node  string // hostfile name of the node; "" if the phase itself begins or ends

	Nodes int   // when a phase begins: the number of nodes that may take part; some may never get that far
	Err   error // for a lost node: the reason
}

func (job Job) emit(event Event) {
	if job.Progress != nil {
		job.Progress(event)
	}
}

// opening returns a function that reports the beginning of a phase with the given number of nodes.
// The returned function reports this on its first call only.
func (job Job) opening(phase Phase, nodes int) func() {
	return sync.OnceFunc(func() { job.emit(Event{Phase: phase, Step: Began, Nodes: nodes}) })
}

// ended reports that a node has finished a phase or was lost in it. If the user interrupted the
// node, ended reports nothing, because the node has not finished.
func (job Job) ended(phase Phase, node string, err error) {
	failure := (*remote.Error)(nil)
	switch {
	case !errors.As(err, &failure):
		job.emit(Event{Phase: phase, Step: Ended, Node: node})
	case failure.Cause != remote.Interrupted:
		job.emit(Event{Phase: phase, Step: Lost, Node: node, Err: failure})
	}
}
