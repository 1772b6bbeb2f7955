// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestAnew: work during a standstill is repeated. The result of the second try is kept if there is
// no second standstill. The test controls the time.
func TestAnew(t *testing.T) {
	const sleep = 30 * time.Second
	for name, sleeps := range map[string][]bool{ // one entry per run of the work
		"awake": {false}, "asleep once": {true, false}, "asleep twice": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now atomic.Int64
			times := 0
			result, stood := repeatAfterStandstill(t.Context(), func() time.Duration { return time.Since(started) + time.Duration(now.Load()) }, func(ctx context.Context) int {
				if sleeps[times] {
					now.Add(int64(sleep))
					<-ctx.Done() // work waits as any wait does
				}
				times++
				return times
			})
			want := 0
			for _, asleep := range sleeps {
				if asleep {
					want++
				}
			}
			if result != len(sleeps) || times != len(sleeps) || len(stood) != want {
				t.Errorf("done %d times, want %d; stood still %v", times, len(sleeps), stood)
			}
			if slices.ContainsFunc(stood, func(s *StoodStill) bool { return s.For < sleep-standTick || s.For > sleep }) {
				t.Errorf("stood still for %v, want %s", stood, sleep)
			}
		})
	}
	t.Run("seen at the end", func(t *testing.T) { // all waits end at the same time, before the next check
		var now atomic.Int64
		times := 0
		_, stood := repeatAfterStandstill(t.Context(), func() time.Duration { return time.Since(started) + time.Duration(now.Load()) }, func(context.Context) any {
			if times++; times == 1 {
				now.Add(int64(sleep))
			}
			return nil
		})
		if times != 2 || len(stood) != 1 {
			t.Errorf("done %d times, stood still %v", times, stood)
		}
	})
}

// TestStopped: a process that did not run for a while counts as stopped, unless it wanted to run.
func TestStopped(t *testing.T) {
	for name, test := range map[string]struct {
		gap, active time.Duration
		want        time.Duration
	}{
		"a tick":                {gap: standTick},
		"stopped":               {gap: 10 * time.Second, want: 10*time.Second - standTick},
		"stopped in the middle": {gap: 10 * time.Second, active: time.Second, want: 10*time.Second - standTick},
		"stopped for a moment":  {gap: standTime},
		"kept from running":     {gap: 10 * time.Second, active: 10 * time.Second},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		w := &standstill{ctx: ctx, cancel: cancel, clock: func() time.Duration { return time.Since(started) }}
		w.awake, w.active = time.Since(started)-test.gap, active()-test.active
		w.last = w.awake
		w.look()
		if test.want == 0 != (w.found == nil) || w.found != nil && (w.found.For-test.want).Abs() > standTick {
			t.Errorf("%s: stood still %v, want %v", name, w.found, test.want)
		}
	}
}
