// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"runtime"
	"sync"
	"time"
)

// watchTick is the interval at which the watchdog should run.
const watchTick = 50 * time.Millisecond

// watchdog adds up the delays of a goroutine that should run every watchTick. The goroutine is late
// if other processes use the processors, if this process has too much to do, or if it was stopped.
var watchdog struct {
	mu    sync.Mutex
	users int
	end   chan struct{} // closed when the last user leaves
	due   time.Time     // time of the next tick
	late  time.Duration // total delay up to the last tick
}

// Watch keeps the watchdog running until the caller calls end.
func Watch() (end func()) {
	w := &watchdog
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users++; w.users == 1 {
		w.end, w.due = make(chan struct{}), time.Now().Add(watchTick)
		go watch(w.end)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.users--; w.users == 0 {
			close(w.end)
		}
	}
}

func watch(end <-chan struct{}) {
	w := &watchdog
	ticks := time.NewTicker(watchTick)
	defer ticks.Stop()
	for {
		select {
		case <-end:
			return
		case <-ticks.C:
		}
		runtime.Gosched() // without it, Go's scheduler prefers the timer to a goroutine that has something to read
		w.mu.Lock()
		w.late += max(0, time.Since(w.due))
		w.due = time.Now().Add(watchTick)
		w.mu.Unlock()
	}
}

// Late returns the total delay of this process so far. It covers only the time in which the
// watchdog was running.
func Late() time.Duration {
	w := &watchdog
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users == 0 {
		return w.late
	}
	return w.late + max(0, time.Since(w.due))
}

// Wait is a period in which this process waits for another process.
type Wait struct {
	began time.Time
	late  time.Duration // total delay before the wait began
}

// BeginWait returns a Wait that begins now.
func BeginWait() Wait { return Wait{time.Now(), Late()} }

// Took returns how long the wait has lasted.
func (w Wait) Took() time.Duration { return time.Since(w.began) }

const (
	// busyPart sets how late a busy process must be at least during a wait: the length of the wait
	// divided by busyPart.
	busyPart = 4
	// busyTime is the minimum delay of a busy process, because a short wait shows nothing about the
	// time that other processes had.
	busyTime = 200 * time.Millisecond
)

// Busy returns by how much this process was late during the wait. It returns 0 if the delay is too
// small to explain a missing answer.
func (w Wait) Busy() time.Duration {
	if late := Late() - w.late; late >= max(w.Took()/busyPart, busyTime) {
		return late
	}
	return 0
}

// Excuse returns a text that says why a missing answer proves nothing about the other side, because
// this process was busy. who names this process's machine as the reader knows it. Excuse returns ""
// if the process had enough time. The text contains no measured time, so that a report can name all
// nodes with the same text together.
func (w Wait) Excuse(who string) string {
	if w.Busy() == 0 {
		return ""
	}
	return who + " was busy: it had too little CPU time to notice an answer"
}
