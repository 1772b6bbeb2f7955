// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// standTick is the interval at which a standstill checks whether this process was stopped.
	standTick = 250 * time.Millisecond
	// standTime is how late a check must be to count as a standstill.
	standTime = 2 * time.Second
	// standPart limits how long a stopped process can have wanted to run before and after the stop:
	// the late time divided by standPart. A process that only waits for processors wants to run all
	// the time.
	standPart = 4
)

// started is the reference time on systems without their own.
var started = time.Now()

// StoodStill is the reason why the context of [RepeatAfterStandstill] ends if this process was stopped, or if its
// machine slept or was paused. All timeouts have then expired, although the peers may have answered
// in time.
type StoodStill struct{ For time.Duration }

func (s *StoodStill) Error() string {
	return fmt.Sprintf("this machine stood still for %s", s.For.Round(100*time.Millisecond))
}

// RepeatAfterStandstill returns the result of work. It repeats work once if this machine stood still while work ran,
// because timeouts during a standstill mean nothing. stood holds the length of each standstill. If
// there are two, the second has affected the result.
func RepeatAfterStandstill[T any](ctx context.Context, work func(context.Context) T) (result T, stood []*StoodStill) {
	return repeatAfterStandstill(ctx, sinceBoot, work)
}

func repeatAfterStandstill[T any](ctx context.Context, clock func() time.Duration, work func(context.Context) T) (result T, stood []*StoodStill) {
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

// standstill detects times in which this process did not run.
type standstill struct {
	ctx    context.Context // ends when this machine has stood still
	cancel context.CancelCauseFunc
	clock  func() time.Duration
	ticks  *time.Ticker
	over   chan struct{}

	mu     sync.Mutex
	last   time.Duration // time of the last check by clock
	awake  time.Duration // time of the last check by Go's clock
	active time.Duration // the value of active() at the last check
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

// look ends the work if this process stood still since the last check. Either the machine slept,
// and Go's clock stopped. Or the process was stopped, and did not even want to run.
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
	w.last, w.awake, w.active = w.clock(), time.Since(started), active // reading active takes time on a busy machine
}

// end makes the last check and stops further checks.
func (w *standstill) end() *StoodStill {
	w.look()
	w.ticks.Stop()
	close(w.over)
	w.cancel(nil)
	return w.found
}
