// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestBusy: a process that was late for a large part of a wait counts as busy.
func TestBusy(t *testing.T) {
	for name, test := range map[string]struct {
		took, late time.Duration
		busy       bool
	}{
		"idle":              {took: 4 * time.Second},
		"late for a moment": {took: 4 * time.Second, late: 900 * time.Millisecond},
		"late for long":     {took: 4 * time.Second, late: 1100 * time.Millisecond, busy: true},
		"a short wait":      {took: 100 * time.Millisecond, late: 90 * time.Millisecond},
		"a longer wait":     {took: 30 * time.Second, late: 5 * time.Second},
	} {
		w := Wait{began: time.Now().Add(-test.took), late: Late() - test.late}
		if late := w.Busy(); late > 0 != test.busy || (w.Excuse("w1") != "") != test.busy {
			t.Errorf("%s: late by %v: %q", name, late, w.Excuse("w1"))
		}
	}
	w := Wait{began: time.Now().Add(-4 * time.Second), late: Late() - 3*time.Second}
	if got, want := w.Excuse("w1"), "w1 was busy: it had too little CPU time to notice an answer"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestWatch: the watchdog measures delays in a process with busy goroutines. It measures only while
// it runs.
func TestWatch(t *testing.T) {
	toil := func() time.Duration {
		w := BeginWait()
		var all sync.WaitGroup
		for range 50 * runtime.GOMAXPROCS(0) {
			all.Go(func() {
				for w.Took() < time.Second {
				}
			})
		}
		all.Wait()
		return w.Busy()
	}
	if late := toil(); late > 0 {
		t.Errorf("late by %v, and nobody watched", late)
	}
	end, endToo := Watch(), Watch()
	end()
	if late := toil(); late == 0 {
		t.Error("it was not late")
	}
	endToo()
	if late := toil(); late > 0 {
		t.Errorf("late by %v after the watch", late)
	}
}
