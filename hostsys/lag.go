package hostsys

import (
	"math"
	"runtime/metrics"
	"sync"
	"time"
)

// lagTick is how often it is looked how far behind we are, as long as anything is waited
// for: what is lost in a moment counts for no more than that.
const lagTick = 200 * time.Millisecond

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

// IgnoreLag is for tests whose time is not that of a machine (testing/synctest): nothing is
// lost until it is called again.
func IgnoreLag(ignored bool) {
	own.mu.Lock()
	defer own.mu.Unlock()
	own.ignored = ignored
	own.looked, own.due = own.now(), own.now()+lagTick
}

// lag measures how far a process is behind with its work.
//
// What wants to run either runs or waits for its turn. Where there is more of it than
// one thing at a time, the part of an interval that is lost is that of the waiting in all of
// it, and otherwise no more than the waiting itself. The kernel counts both for every thread
// (Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat), Go's scheduler
// for goroutines. A machine that is held, or a process that is stopped, wants nothing
// and only comes late.
type lag struct {
	now     func() time.Duration
	threads func() (ran, waited time.Duration) // of this process and its children, since the last time

	mu      sync.Mutex
	behind  time.Duration // all that was lost
	queued  time.Duration // the part of it that was waited for a turn
	looked  time.Duration // when
	due     time.Duration // of the next tick
	waiting int           // deadlines that are under way
	shown   time.Duration // by worked
	ignored bool
}

var own = newLag()

func newLag() *lag {
	k, g := &kernelView{}, &goView{}
	return &lag{
		now: func() time.Duration { return time.Since(started) },
		threads: func() (ran, waited time.Duration) {
			ran, waited = k.since()
			return ran, waited + g.since()
		},
	}
}

// begin has the lag measured until end is called as often.
func (l *lag) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting++; l.waiting == 1 && !l.ignored {
		l.threads() // what was before does not count
		l.looked = l.now()
		l.due = l.looked + lagTick
		time.AfterFunc(lagTick, l.tick)
	}
}

func (l *lag) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
}

func (l *lag) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting > 0 && !l.ignored {
		l.look(max(l.now()-l.due, 0))
		l.due = l.looked + lagTick
		time.AfterFunc(lagTick, l.tick)
	}
}

// look adds what was lost since the last time. late is how much later than it should
// whoever looks has come to it.
func (l *lag) look(late time.Duration) {
	now := l.now()
	took := now - l.looked
	ran, waited := l.threads()
	l.looked = now
	if took <= 0 {
		return
	}
	queued := time.Duration(float64(took) * float64(waited) / float64(max(took, ran+waited)))
	l.queued += queued
	l.behind += min(took, max(late, queued))
}

// lost is all that was lost until now, and inQueue the part of it that was waited for a turn.
func (l *lag) lost() (all time.Duration) {
	all, _ = l.both()
	return all
}

func (l *lag) inQueue() (queued time.Duration) {
	_, queued = l.both()
	return queued
}

func (l *lag) both() (all, queued time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting > 0 && !l.ignored && l.now()-l.looked >= lagTick/10 {
		l.look(0)
	}
	return l.behind, l.queued
}

func (l *lag) worked() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ignored {
		return l.now()
	}
	l.shown = max(l.shown, l.now()-l.behind) // what is found to be lost was so before it was
	return l.shown
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
