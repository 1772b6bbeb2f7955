// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"math"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lagTick is how often it is looked how far behind we are, as long as anything is waited
	// for: what is lost in a moment counts for no more than that.
	lagTick = time.Second
	// lagLook is how old what was seen last may be for whoever asks.
	lagLook = 100 * time.Millisecond
)

// Lost is for how long this process has been kept from its work since it began, for all
// it has waited for: by other processes that had the processors, by its own goroutines that
// were in the way of each other, by who stopped it or its machine. What comes in such a time
// lies unread, and nobody is asked anything.
func Lost() time.Duration { return own.lost() }

// Worked is the time in which this process could work, as far as that is known at the moment:
// the difference between two of them is how long somebody was really waited for.
func Worked() time.Duration { return own.worked() }

// Measure has what is lost measured until end is called, also while nobody is waited for.
func Measure() (end func()) {
	own.begin()
	return own.end
}

// Pace is how much of the time this process could work since it began to measure: 1 for all of it.
func Pace() float64 {
	passed := time.Since(started)
	return 1 - float64(min(Lost(), passed))/float64(max(passed, 1))
}

// IgnoreLag is for tests whose time is not that of a machine (testing/synctest): nothing is
// lost until it is called again.
func IgnoreLag(ignored bool) { own.ignored.Store(ignored) }

// lag measures how far a process is behind with its work.
//
// What wants to run either runs or waits for its turn. Where there is more of it than
// one thing at a time, the part of an interval that is lost is that of the waiting in all of
// it, and otherwise no more than the waiting itself. The kernel counts both for every thread
// (Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat), Go's scheduler
// for goroutines. A machine that is held, or a process that is stopped, wants nothing
// and only comes late.
type lag struct {
	now        func() time.Duration
	threads    func() (ran, waited time.Duration) // of this process and its children, since the last time
	goroutines func() (waited time.Duration)

	looking sync.Mutex    // held by whoever looks
	looked  atomic.Int64  // when
	due     time.Duration // of the next tick
	ticker  *time.Timer

	behind  atomic.Int64 // all that was lost
	stopped atomic.Int64 // what of it was lost at once, and not in any queue
	shown   atomic.Int64 // by worked
	waiting atomic.Int64 // deadlines that are under way
	ignored atomic.Bool
}

var own = newLag()

func newLag() *lag {
	k, g := &kernelView{}, &goView{}
	return &lag{now: func() time.Duration { return time.Since(started) }, threads: k.since, goroutines: g.since}
}

// begin has the lag measured until end is called as often.
func (l *lag) begin() {
	if l.waiting.Add(1) == 1 && !l.ignored.Load() {
		l.looking.Lock()
		defer l.looking.Unlock()
		l.threads() // what was before does not count
		l.goroutines()
		l.looked.Store(int64(l.now()))
		l.due = l.now() + lagTick
		if l.ticker == nil {
			l.ticker = time.AfterFunc(lagTick, l.tick)
		} else {
			l.ticker.Reset(lagTick)
		}
	}
}

func (l *lag) end() { l.waiting.Add(-1) }

func (l *lag) tick() {
	if l.waiting.Load() == 0 || l.ignored.Load() {
		return
	}
	l.looking.Lock()
	defer l.looking.Unlock()
	l.look(max(l.now()-l.due, 0))
	l.due = l.now() + lagTick
	l.ticker.Reset(lagTick)
}

// look adds what was lost since the last time. late is how much later than it should
// whoever looks has come to it.
func (l *lag) look(late time.Duration) {
	before := l.now() // looking takes its time as well
	ran, waited := l.threads()
	active := ran + waited
	waited += l.goroutines()
	now := l.now()
	last := time.Duration(l.looked.Swap(int64(now)))
	took, idle := now-last, before-last-lagTick
	if took <= 0 {
		return
	}
	queued := time.Duration(float64(took) * float64(waited) / float64(max(took, ran+waited)))
	l.behind.Add(int64(min(took, max(late, queued))))
	if idle >= standTime && active < idle/4 { // to the kernel, who is stopped wants nothing
		l.stopped.Add(int64(idle))
	}
}

// lost is all that was lost until now. Who asks while another looks waits for that only where
// what is known is old.
func (l *lag) lost() time.Duration {
	if l.waiting.Load() > 0 && !l.ignored.Load() {
		switch age := l.age(); {
		case age >= lagTick:
			l.looking.Lock()
			l.renew()
		case age >= lagLook && l.looking.TryLock():
			l.renew()
		}
	}
	return time.Duration(l.behind.Load())
}

func (l *lag) age() time.Duration { return l.now() - time.Duration(l.looked.Load()) }

// renew looks, unless who looked before has just done so, and lets others look.
func (l *lag) renew() {
	defer l.looking.Unlock()
	if l.age() >= lagLook {
		l.look(0)
	}
}

func (l *lag) worked() time.Duration {
	worked := int64(l.now()) - int64(l.lost())
	for !l.ignored.Load() {
		shown := l.shown.Load()
		if worked <= shown {
			return time.Duration(shown) // what is found to be lost was so before it was
		}
		if l.shown.CompareAndSwap(shown, worked) {
			break
		}
	}
	return time.Duration(worked)
}

// goView is the time that goroutines have waited for their turn.
type goView struct{ before time.Duration }

// sampled is of how many waits Go's scheduler measures one (runtime2.go, gTrackingPeriod).
const sampled = 8

func (g *goView) since() time.Duration {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	waits, all := sample[0].Value.Float64Histogram(), 0.0
	for i, count := range waits.Counts {
		if from := waits.Buckets[i]; count > 0 && !math.IsInf(from, 0) {
			all += float64(count) * from
		}
	}
	total := time.Duration(all * sampled * float64(time.Second))
	waited := total - g.before
	g.before = total
	return max(waited, 0)
}
