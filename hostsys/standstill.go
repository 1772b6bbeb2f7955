package hostsys

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// standTick is how often it is looked whether time has passed us by.
	standTick = 250 * time.Millisecond
	// standTime is how late a look has to come for that, beside what a busy machine keeps
	// us waiting for: that is lost to no deadline (lag.go).
	standTime = 2 * time.Second
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
	queued time.Duration // until then, we have waited for a turn
	found  *StoodStill
}

func watchStandstill(ctx context.Context, clock func() time.Duration) *standstill {
	own.begin()
	w := &standstill{queued: own.inQueue(), clock: clock, ticks: time.NewTicker(standTick), over: make(chan struct{}), last: clock()}
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

// look ends the work when the last look is too long ago.
func (w *standstill) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, queued := w.clock(), own.inQueue()
	if late := now - w.last - standTick; late-(queued-w.queued) >= standTime && w.found == nil {
		w.found = &StoodStill{For: late}
		w.cancel(w.found)
	}
	w.last, w.queued = now, queued
}

// end looks for the last time.
func (w *standstill) end() *StoodStill {
	w.look()
	own.end()
	w.ticks.Stop()
	close(w.over)
	w.cancel(nil)
	return w.found
}
