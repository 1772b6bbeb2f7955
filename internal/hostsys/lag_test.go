// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLost: what counts is what of an interval was waited, and no more of it than there is.
func TestLost(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct{ took, ran, waited, late, lost time.Duration }{
		"an idle process":                        {took: 10 * s},
		"one that has the processors":            {took: 10 * s, ran: 20 * s},
		"one thing that waits now and then":      {took: 10 * s, ran: 1 * s, waited: 2 * s, lost: 2 * s},
		"one thing, on half a processor":         {took: 10 * s, ran: 5 * s, waited: 5 * s, lost: 5 * s},
		"a thousand that wait for two":           {took: 10 * s, ran: 20 * s, waited: 9980 * s, lost: 9980 * time.Millisecond},
		"nothing ran":                            {took: 10 * s, waited: 40 * s, lost: 10 * s},
		"stopped":                                {took: 10 * s, late: 9 * s, lost: 9 * s},
		"late, because it waited for its turn":   {took: 10 * s, ran: 1 * s, waited: 9 * s, late: 9 * s, lost: 9 * s},
		"later than the time that has passed":    {took: 1 * s, late: 3 * s, lost: 1 * s},
		"no time has passed since the last look": {ran: 1 * s, waited: 1 * s},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lag{now: func() time.Duration { return test.took }, threads: func() (ran, waited time.Duration) { return test.ran, test.waited }, goroutines: func() time.Duration { return 0 }}
			if l.look(test.late); time.Duration(l.behind.Load()) != test.lost {
				t.Errorf("lost %v, want %v", time.Duration(l.behind.Load()), test.lost)
			}
		})
	}
}

// busy is a process in a bubble of which a share of every moment is waited.
func busy(share float64) *lag {
	start := time.Now()
	last := start
	return &lag{now: func() time.Duration { return time.Since(start) }, goroutines: func() time.Duration { return 0 }, threads: func() (ran, waited time.Duration) {
		took := time.Since(last)
		last = time.Now()
		waited = time.Duration(share * float64(took))
		return took - waited, waited
	}}
}

// TestDeadlineOfABusyProcess: nobody is given up earlier than he would be by an idle process, and by
// that no later.
func TestDeadlineOfABusyProcess(t *testing.T) {
	const limit = 4 * time.Second
	for name, test := range map[string]struct {
		share       float64
		other       float64 // what of the time another one loses
		after       time.Duration
		overwhelmed bool
	}{
		"idle":                          {after: limit},
		"half the time":                 {share: 0.5, after: 2 * limit},
		"a fifth of it":                 {share: 0.8, after: 5 * limit},
		"a fifth, and none of another":  {other: 0.8, after: 5 * limit},
		"both lose":                     {share: 0.4, other: 0.4, after: 5 * limit},
		"nothing left: not without end": {share: 1, after: (1 + widest) * limit, overwhelmed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, began := busy(test.share), time.Now()
				other := func() time.Duration { return time.Duration(test.other * float64(time.Since(began))) }
				ctx, cancel := l.withTimeout(t.Context(), limit, nil, []func() time.Duration{other})
				defer cancel()
				<-ctx.Done()
				if took := time.Since(began); took < test.after-lagTick || took > test.after+lagTick {
					t.Errorf("over after %v, want %v", took, test.after)
				}
				if Overwhelmed(ctx) != test.overwhelmed {
					t.Errorf("overwhelmed %v", !test.overwhelmed)
				}
			})
		})
	}
}

// TestDeadlineOfAStoppedProcess: what it was stopped for does not count, and what came meanwhile
// is read before anybody is given up.
func TestDeadlineOfAStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Int64
		l := busy(0)
		awake := l.now
		l.now = func() time.Duration { return awake() + time.Duration(stopped.Load()) }
		over, began := make(chan time.Duration, 1), time.Now()
		l.afterFunc(4*time.Second, func() { over <- time.Since(began) }, nil)
		time.Sleep(time.Second)
		stopped.Add(int64(time.Minute))
		if took := <-over; took < 4*time.Second || took > 4*time.Second+lagTick+lastLook {
			t.Errorf("over after %v of its own", took)
		}
	})
}

func TestTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, called := busy(0), atomic.Int64{}
		timer := l.afterFunc(time.Second, func() { called.Add(1) }, nil)
		time.Sleep(time.Second / 2)
		timer.Reset(time.Second)
		time.Sleep(3 * time.Second / 4)
		if called.Load() != 0 || timer.Left() != time.Second/4 {
			t.Errorf("called %d times, left %v", called.Load(), timer.Left())
		}
		time.Sleep(time.Second)
		if called.Load() != 1 || timer.Stop() {
			t.Errorf("called %d times, or stopped after it", called.Load())
		}
		timer.Reset(time.Second)
		if !timer.Stop() || timer.Stop() || l.waiting.Load() != 0 {
			t.Errorf("not stopped once; %d are waiting", l.waiting.Load())
		}
		time.Sleep(2 * time.Second)
		if called.Load() != 1 {
			t.Errorf("called %d times", called.Load())
		}
	})
}

// TestContext: it ends as package context's own do, for those that are made of it as well.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, cause := busy(0), errors.New("too slow")
		parent, stop := context.WithCancel(t.Context())
		ctx, cancel := l.withTimeout(parent, 2*time.Second, cause, nil)
		defer cancel()
		inner, end := l.withTimeout(ctx, time.Minute, nil, nil)
		defer end()
		child, leave := context.WithCancel(inner)
		defer leave()
		if _, is := child.Deadline(); is {
			t.Error("it knows when it ends")
		}
		if left, is := Left(child); !is || left != 2*time.Second {
			t.Errorf("left %v", left)
		}
		if _, is := Left(parent); is {
			t.Error("what has no end has one")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for _, one := range []context.Context{ctx, inner, child} {
			if one.Err() != context.DeadlineExceeded || context.Cause(one) != cause {
				t.Errorf("ended with %v, cause %v", one.Err(), context.Cause(one))
			}
		}
		again, cancel := l.withTimeout(parent, time.Second, nil, nil)
		defer cancel()
		stop()
		synctest.Wait()
		if again.Err() != context.Canceled || l.waiting.Load() != 0 {
			t.Errorf("ended with %v, %d are waiting", again.Err(), l.waiting.Load())
		}
	})
}

// TestProcessThatIsBehind: this one, whose goroutines are in the way of each other.
func TestProcessThatIsBehind(t *testing.T) {
	defer Measure()()
	before, began := Lost(), time.Now()
	var all sync.WaitGroup
	for range 50 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for time.Since(began) < time.Second {
			}
		})
	}
	all.Wait()
	if lost := Lost() - before; lost < time.Since(began)/2 {
		t.Errorf("of %v, it lost %v", time.Since(began), lost)
	}
}

func BenchmarkLook(b *testing.B) {
	k, g := &kernelView{}, &goView{}
	b.ReportAllocs()
	for b.Loop() {
		k.since()
		g.since()
	}
}
