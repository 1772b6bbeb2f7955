// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"preflight/internal/hostsys"
	"preflight/internal/text"
)

// lag is what an agent tells of how long it has been kept from its work: its machine is
// busy, and no deadline is to take that for silence. A node is not trusted: it cannot
// have lost more time than has passed, and nobody waits for what others have lost without
// end (hostsys.AfterFunc).
type lag struct {
	mu    sync.Mutex
	began time.Time
	told  time.Duration
	at    time.Time // when that was
	rate  float64   // of the time before that, which is taken to go on
}

const (
	// paceTime is how long a pace is measured: some answers come at once, one upon another.
	paceTime = 200 * time.Millisecond
	// fullPace is that of an agent that gets next to nothing done.
	fullPace = 0.9
	// startTime is what a look takes where nobody is busy: what is lost in it alone is lost to starting, by
	// which no long wait can be judged.
	startTime = 3 * time.Second
)

func (l *lag) tell(seconds float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	passed := time.Since(l.at)
	more := min(max(time.Duration(seconds*float64(time.Second))-l.told, 0), passed)
	if passed < paceTime {
		return
	}
	l.told += more
	l.rate = min(float64(more)/float64(passed), fullPace)
	l.at = time.Now()
}

// lost is what it has lost until now.
func (l *lag) lost() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told + time.Duration(l.rate*float64(time.Since(l.at)))
}

// pace is how much of the time it can work, as it last told: 1 for all of it.
func (l *lag) pace() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 1 - l.rate
}

// Lost is for how long the agent has been kept from its work so far.
func (a *Agent) Lost() time.Duration { return a.lag.lost() }

// Pace is how much of the time the agent could work since it began, or of a longer time where that was just
// now: 1 for all of it. What it told last is of a moment, and who waits for it longer would wait ten times too
// long for one.
func (a *Agent) Pace() float64 {
	return 1 - min(a.Lost().Seconds()/max(time.Since(a.lag.began), startTime).Seconds(), fullPace)
}

// Within is a context for a call that the agent is to answer: its time runs as far as both
// it and we can work.
func (a *Agent) Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return hostsys.WithTimeout(ctx, limit, a.Lost)
}

// wait is one for an agent, from its beginning on.
type wait struct {
	agent        *Agent
	began        time.Time
	worked       time.Duration // as hostsys.Worked
	ours, theirs time.Duration // lost before
}

func (a *Agent) waiting() wait {
	return wait{agent: a, began: time.Now(), worked: hostsys.Worked(), ours: hostsys.Lost(), theirs: a.Lost()}
}

// busy says who was kept from work meanwhile, "" for nobody to speak of.
func (w wait) busy() string {
	toSpeakOf := time.Since(w.began) / 10
	if theirs := w.agent.Lost() - w.theirs; theirs > toSpeakOf {
		return fmt.Sprintf("; its machine is busy: our agent there was kept from its work for %s", text.Duration(theirs.Seconds()))
	}
	if ours := hostsys.Lost() - w.ours; ours > toSpeakOf {
		return fmt.Sprintf("; this machine is busy, and was %s behind with its own work: run it where there is less load, or with a longer --timeout", text.Duration(ours.Seconds()))
	}
	return ""
}

// excused is a failure to reach a node within ctx: where this machine was so busy that it could not have
// heard the node, it says that instead.
func excused(ctx context.Context, err error) error {
	failure, is := errors.AsType[*Error](err)
	if !is || !hostsys.Overwhelmed(ctx) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &Error{Host: failure.Host, Stage: failure.Stage, Cause: HeadBusy,
		Err: fmt.Errorf("of the time it waited, more than nine tenths were lost to other work (%w)", failure.Err)}
}
