// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// widest is how many times its limit nobody waits beyond it, however much was lost: a
// machine that gets a twentieth of its time knows nothing of others.
const widest = 9

// Timer is [time.Timer] of a function whose time runs only while this process can work.
type Timer struct {
	lag    *lag
	others []func() time.Duration // what each has lost
	call   func()

	mu      sync.Mutex
	timer   *time.Timer
	limit   time.Duration
	began   time.Duration
	before  time.Duration // lost by all when it began
	over    bool          // it has been stopped, or has called
	looking bool          // for the last time
}

// AfterFunc calls f when this process could have worked for so long: a deadline is to
// measure who is waited for, and not who waits. others are what else has been lost: each
// says how much in all, so far, of whoever is waited for.
func AfterFunc(limit time.Duration, f func(), others ...func() time.Duration) *Timer {
	return own.afterFunc(limit, f, others)
}

func (l *lag) afterFunc(limit time.Duration, f func(), others []func() time.Duration) *Timer {
	t := &Timer{lag: l, call: f, others: others, over: true}
	t.Reset(limit)
	return t
}

// Reset has the function called when so much time is up from now on.
func (t *Timer) Reset(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		t.lag.begin()
	}
	t.over, t.looking = false, false
	t.limit, t.began, t.before = limit, t.lag.now(), t.lostByAll()
	if t.timer == nil {
		t.timer = time.AfterFunc(limit, t.look)
	} else {
		t.timer.Reset(limit)
	}
}

func (t *Timer) lostByAll() time.Duration {
	lost := t.lag.lost()
	for _, other := range t.others {
		lost += other()
	}
	return lost
}

// Lost is how much was lost since the timer began.
func (t *Timer) Lost() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost()
}

func (t *Timer) lost() time.Duration { return max(t.lostByAll()-t.before, 0) }

// Left is how much of the time is left.
func (t *Timer) Left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left()
}

func (t *Timer) left() time.Duration {
	return t.limit - (t.lag.now() - t.began) + min(t.lost(), widest*t.limit)
}

func (t *Timer) overwhelmed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost() > widest*t.limit
}

// lastLook is how long whoever was late looks again, for what has come lies unread.
const lastLook = 20 * time.Millisecond

// look calls the function if the time is up.
func (t *Timer) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.left()
	switch {
	case t.over:
		return
	case left > 0:
		t.timer.Reset(max(left, time.Millisecond))
		return
	case !t.looking && t.lost() > lastLook:
		t.looking = true
		t.timer.Reset(lastLook)
		return
	}
	t.over = true
	t.lag.end()
	go t.call()
}

// Stop is whether it keeps the function from being called.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	t.timer.Stop()
	t.lag.end()
	return true
}

// WithTimeout is [context.WithTimeout] by the time of [AfterFunc]. Nobody knows when that
// is up, so that the context has no Deadline; see [Left].
func WithTimeout(ctx context.Context, limit time.Duration, others ...func() time.Duration) (context.Context, context.CancelFunc) {
	return WithTimeoutCause(ctx, limit, nil, others...)
}

// WithTimeoutCause is [context.WithTimeoutCause] in the same way.
func WithTimeoutCause(ctx context.Context, limit time.Duration, cause error, others ...func() time.Duration) (context.Context, context.CancelFunc) {
	return own.withTimeout(ctx, limit, cause, others)
}

func (l *lag) withTimeout(ctx context.Context, limit time.Duration, cause error, others []func() time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	if errors.Is(ctx.Err(), context.Canceled) { // which package context learns of a wait a moment later
		cancel(context.Cause(ctx))
	}
	w := &wait{Context: inner, outer: ctx, done: make(chan struct{})}
	w.timer = l.afterFunc(limit, func() {
		w.late.Store(true)
		cancel(cmp.Or(cause, context.DeadlineExceeded))
	}, others)
	context.AfterFunc(inner, func() {
		w.timer.Stop()
		close(w.done)
	})
	return w, func() {
		w.timer.Stop()
		cancel(context.Canceled)
	}
}

// WithTimeLeft is WithTimeout that ends so long before ctx does, and with ctx where that has
// no end.
func WithTimeLeft(ctx context.Context, left time.Duration) (context.Context, context.CancelFunc) {
	all, limited := Left(ctx)
	if !limited {
		return context.WithCancel(ctx)
	}
	return WithTimeout(ctx, all-left)
}

// wait is a context that ends when its time is up. Package context does not know that it
// ends as the one in it does, which never is late, but asks it.
type wait struct {
	context.Context
	outer context.Context
	done  chan struct{}
	timer *Timer
	late  atomic.Bool
}

type waitKey struct{}

func (w *wait) Done() <-chan struct{} { return w.done }

func (w *wait) Err() error {
	err := w.Context.Err()
	if err != nil && w.late.Load() {
		return context.DeadlineExceeded
	}
	return err
}

func (w *wait) Value(key any) any {
	if key == (waitKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// AfterFunc is what package context asks a context for that it does not know.
func (w *wait) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(w.Context, f) }

// Left is how much time a context has left, as far as that can be known, and whether it
// has an end at all.
func Left(ctx context.Context) (left time.Duration, limited bool) {
	if deadline, is := ctx.Deadline(); is {
		left, limited = time.Until(deadline), true
	}
	for {
		w, is := ctx.Value(waitKey{}).(*wait)
		if !is {
			return left, limited
		}
		if its := w.timer.Left(); !limited || its < left {
			left, limited = its, true
		}
		ctx = w.outer
	}
}

// Overwhelmed is whether a context ended although more was lost than anybody waits for: then
// that nothing came in its time says nothing of who was waited for.
func Overwhelmed(ctx context.Context) bool {
	w, is := ctx.Value(waitKey{}).(*wait)
	return is && (w.timer.overwhelmed() || Overwhelmed(w.outer))
}
