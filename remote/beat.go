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

// Both ends of a connection regularly send a heartbeat, because a silently cut connection looks
// like one without traffic. An agent that receives nothing ends, with its children. If a node sends
// nothing, the launching machine asks the carrier for a sign of life. If the carrier gets none
// either, the launching machine gives the node up.
const (
	// DefaultBeat is the interval if Options.Beat is 0.
	DefaultBeat = 2 * time.Second
	// patience is how many heartbeats in a row an agent may miss. With it, the agent survives a
	// launching machine that is stopped for less than half a minute. patience and drainGrace
	// together are how long an agent outlives its connection.
	patience = 15
	// headPatience is how many heartbeats in a row the launching machine may miss. In that time a
	// carrier can prove what is wrong with the path (path.go of remote/ssh), which is more useful
	// than a report of silence.
	headPatience = 10
	// verdictTime is how long a carrier may take to get a sign of life from a silent node.
	verdictTime = 2 * time.Second
)

// manyNodes is the number of nodes above which the interval between heartbeats is doubled.
// Heartbeats are most of the traffic of 10,000 idle agents and take a third of a CPU of the
// launching machine.
const manyNodes = 2000

// beatOf returns the interval for a run with the given number of nodes. The interval is shorter
// than the time limit of any request, so that a busy node sends something within that limit.
func beatOf(nodes int) time.Duration {
	if nodes > manyNodes {
		return 2 * DefaultBeat
	}
	return DefaultBeat
}

// ear is a stream that records whether anything arrives. It counts bytes rather than lines, because
// a long line takes time on a slow connection.
type ear struct {
	in        io.Reader
	patience  int          // number of heartbeats that may be missed
	received  atomic.Int64 // number of bytes
	last      atomic.Int64 // when bytes last came, as the time since loaded; 0 if none have come
	listening atomic.Bool

	// Only the goroutine that counts heartbeats uses these fields.
	before int64
	missed int
	late   time.Duration // hostsys.Late at the last heartbeat
}

// loaded is the zero point of the times in ear.
var loaded = time.Now()

func (e *ear) Read(p []byte) (int, error) {
	e.listening.Store(true)
	n, err := e.in.Read(p)
	e.listening.Store(false)
	e.received.Add(int64(n))
	if n > 0 {
		e.last.Store(int64(time.Since(loaded)))
	}
	return n, err
}

// heard reports whether bytes have come during the wait w and within the last one and a half
// intervals. If so, the other end is alive.
func (e *ear) heard(w hostsys.Wait, every time.Duration) bool {
	silent := time.Since(loaded) - time.Duration(e.last.Load())
	return silent < min(w.Took(), every*3/2)
}

// beat must be called once per interval. It reports whether too many intervals have passed in
// silence. It counts intervals instead of time, so that a suspended process misses only one.
func (e *ear) beat(every time.Duration) (silent bool) {
	came, late := e.received.Load(), hostsys.Late()
	switch {
	case came > e.before || !e.listening.Load():
		e.missed = 0
	case late-e.late < every/2: // otherwise bytes may have arrived that this machine was too busy to read
		e.missed++
	}
	e.before, e.late = came, late
	return e.missed >= e.patience
}

// unheard returns the failure of an agent that ended because it received nothing from the launching
// machine. If the launching machine stood still, the caller notices that itself (hostsys.Anew) and
// starts again.
func (a *Agent) unheard(seconds float64) *Error {
	if a.life.Busy() > 0 {
		return a.fail(HeadBusy, nil, fmt.Errorf("the agent got nothing from the launching machine for %.1f s, and ended", seconds))
	}
	return a.fail(ConnectionLost, nil, fmt.Errorf("the agent got nothing from the launching machine for %.1f s, and ended: what preflight sent was lost on the way", seconds))
}

// beat sends a heartbeat and checks whether the node has sent something.
func (a *Agent) beat() {
	select {
	case <-a.dead:
		return
	case a.writing <- struct{}{}:
		_, _ = a.command.stdin.Write(beatLine) // errors show up where answers are read
		<-a.writing
	default: // a request is being written, which serves as a heartbeat
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

// die marks the agent as ended and stops its heartbeat timer, which would keep it in memory with
// its connection.
func (a *Agent) die() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.dead)
	if a.beating != nil {
		a.beating.Stop()
	}
}

// listenHarder asks the carrier about a node whose agent is silent. If the node's server answers,
// the node is busy, and the deadline of the call decides.
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
