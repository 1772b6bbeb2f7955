// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// standTick is how often a standstill looks whether time has passed this process by.
	standTick = 250 * time.Millisecond
	// standTime is how late a look has to come for that.
	standTime = 2 * time.Second
	// standPart is the part of that time, as a divisor, in which a process that was stopped can have wanted to run:
	// before it was, and after. One that other processes keep from running wants to all the time.
	standPart = 4
)

// started is a moment to count from where the system has none.
var started = time.Now()

// StoodStill is why the context of [Anew] ends when this process was stopped, or its
// machine slept or was held: every wait is over then, and whoever was waited for may have
// answered long before.
type StoodStill struct{ For time.Duration }

func (s *StoodStill) Error() string {
	return fmt.Sprintf("this machine stood still for %s", s.For.Round(100*time.Millisecond))
}

// Anew is what comes of work, which is done once more where this machine stood still
// meanwhile: what it waited for in vain says nothing then. stood is for how long, each
// time; of two, the second has spoilt what is returned.
func Anew[T any](ctx context.Context, work func(context.Context) T) (result T, stood []*StoodStill) {
	return anew(ctx, sinceBoot, work)
}

func anew[T any](ctx context.Context, clock func() time.Duration, work func(context.Context) T) (result T, stood []*StoodStill) {
	defer Watch()()
	for range 2 {
		w := watchStandstill(ctx, clock)
		result = work(w.ctx)
		still := w.end()
		if still == nil {
			break
		}
		if stood = append(stood, still); ctx.Err() != nil {
			break
		}
	}
	return result, stood
}

// standstill is a watch over the time that passes.
type standstill struct {
	ctx    context.Context // ends when this machine has stood still
	cancel context.CancelCauseFunc
	clock  func() time.Duration
	ticks  *time.Ticker
	over   chan struct{}

	mu     sync.Mutex
	last   time.Duration // when it was looked last, by the clock
	awake  time.Duration // and by Go's own
	active time.Duration // until then, as active returns it
	found  *StoodStill
}

func watchStandstill(ctx context.Context, clock func() time.Duration) *standstill {
	w := &standstill{active: active(), clock: clock, ticks: time.NewTicker(standTick), over: make(chan struct{}), last: clock(), awake: time.Since(started)}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	go func() {
		for {
			select {
			case <-w.ticks.C:
				w.look()
			case <-w.over:
				return
			}
		}
	}()
	return w
}

// look ends the work when time has passed this process by since the last look: the machine was asleep, in which
// Go's own clock stands still, or the process was stopped, in which it did not even
// want to run.
func (w *standstill) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, awake := w.clock(), time.Since(started)
	active := active()
	still := now - w.last - (awake - w.awake)
	if late := awake - w.awake - standTick; late >= standTime && active-w.active < late/standPart {
		still += late
	}
	if still >= standTime && w.found == nil {
		w.found = &StoodStill{For: still.Round(time.Millisecond)}
		w.cancel(w.found)
	}
	w.last, w.awake, w.active = w.clock(), time.Since(started), active // to read active takes time on a busy machine
}

// end looks for the last time.
func (w *standstill) end() *StoodStill {
	w.look()
	w.ticks.Stop()
	close(w.over)
	w.cancel(nil)
	return w.found
}
