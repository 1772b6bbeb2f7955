// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"preflight/internal/hostsys"
	"preflight/internal/text"
)

// Each end of the wire says every so often that it is there, for a way that is cut
// without a word looks like one on which nobody has anything to say. An agent that
// hears nothing ends, with what it has started. A head that hears nothing asks the
// carrier, and gives the node up if that hears nothing either.
const (
	// DefaultBeat is how often, when Options.Beat is zero.
	DefaultBeat = 2 * time.Second
	// patience is how many beats in a row an agent may miss, so that it survives a launching machine that is
	// stopped for less than half a minute. Together with drainGrace, that is how long it outlives the way to its
	// head.
	patience = 15
	// headPatience is how many the head may miss: time enough for a carrier to prove what
	// is wrong with the way (path.go of remote/ssh), which says more than silence.
	headPatience = 10
	// verdictTime is how long a carrier may take to hear from a node that is silent.
	verdictTime = 2 * time.Second
)

// manyNodes is from how many on everybody beats half as often: that is all that 10,000 agents do
// most of the time, and takes a third of a processor of their head.
const manyNodes = 2000

// beatOf is how often, in a run of so many nodes. It fits into what a node gets for any request, so
// that one that is busy is heard meanwhile.
func beatOf(nodes int) time.Duration {
	if nodes > manyNodes {
		return 2 * DefaultBeat
	}
	return DefaultBeat
}

// ear is a stream that notes whether something comes. Bytes count, and not lines: a
// large one takes its time on a slow way.
type ear struct {
	in        io.Reader
	patience  int          // beats
	came      atomic.Int64 // bytes
	last      atomic.Int64 // when some came, as the time since loaded; 0 before
	listening atomic.Bool

	// Of whoever counts the beats.
	before int64
	missed int
	late   time.Duration // as hostsys.Late, at the last one
}

// loaded is a moment to count from.
var loaded = time.Now()

func (e *ear) Read(p []byte) (int, error) {
	e.listening.Store(true)
	n, err := e.in.Read(p)
	e.listening.Store(false)
	e.came.Add(int64(n))
	if n > 0 {
		e.last.Store(int64(time.Since(loaded)))
	}
	return n, err
}

// heard reports whether something has come during a wait, and within a beat and a half, so that whoever beats
// that often is there.
func (e *ear) heard(w hostsys.Wait, every time.Duration) bool {
	silent := time.Since(loaded) - time.Duration(e.last.Load())
	return silent < min(w.Took(), every*3/2)
}

// beat is called once a beat and reports whether too many have passed in silence.
// They are counted, not measured: whoever was suspended itself has missed one.
func (e *ear) beat(every time.Duration) (silent bool) {
	came, late := e.came.Load(), hostsys.Late()
	switch {
	case came > e.before || !e.listening.Load():
		e.missed = 0
	case late-e.late < every/2: // what has come lies unread otherwise
		e.missed++
	}
	e.before, e.late = came, late
	return e.missed >= e.patience
}

// unheard is the failure of an agent that says it ended because we were silent. Where
// this machine stood still, whoever looks knows that by itself (hostsys.Anew) and asks anew.
func (a *Agent) unheard(seconds float64) *Error {
	if a.life.Busy() > 0 {
		return a.fail(HeadBusy, nil, fmt.Errorf("the agent got nothing from the launching machine for %.1f s, and ended", seconds))
	}
	return a.fail(ConnectionLost, nil, fmt.Errorf("the agent got nothing from the launching machine for %.1f s, and ended: what preflight sent was lost on the way", seconds))
}

// beat tells the node that we are there, and looks whether it is.
func (a *Agent) beat() {
	select {
	case <-a.dead:
		return
	case a.writing <- struct{}{}:
		_, _ = a.command.stdin.Write(beatLine) // what is wrong shows where answers are read
		<-a.writing
	default: // a request is being written, which says as much
	}
	if a.command.ear.beat(a.every) {
		a.listenHarder()
	}
	a.beatLater()
}

func (a *Agent) beatLater() {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.dead:
	default:
		a.beating = time.AfterFunc(a.every, a.beat)
	}
}

// die says that nothing more will come, and has no beat come that would keep the agent in memory with its connection.
func (a *Agent) die() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.dead)
	if a.beating != nil {
		a.beating.Stop()
	}
}

// listenHarder asks the carrier about a node whose agent is silent. One whose server
// answers is busy: what it is asked has a deadline.
func (a *Agent) listenHarder() {
	w := hostsys.BeginWait()
	ctx, cancel := context.WithTimeout(context.Background(), verdictTime)
	defer cancel()
	lookout := a.command.client.LookOut(ctx)
	defer lookout.Dismiss()
	alive := make(chan struct{})
	go func() {
		if a.command.client.Alive() {
			close(alive)
		}
	}()
	select {
	case <-alive:
		a.command.ear.missed = 0
	case <-a.dead:
	case <-ctx.Done():
		silence := text.Duration((headPatience*a.every + verdictTime).Seconds())
		failure := a.fail(Frozen, map[string]string{"after": silence}, fmt.Errorf("nothing came for %s, not even from the server", silence))
		lookout.Tell(failure)
		a.hangUp(failure.excused(w))
	}
}
