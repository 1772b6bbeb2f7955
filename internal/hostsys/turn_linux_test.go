// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ofOneTest returns a lock name that no other test uses, in any checkout.
func ofOneTest(t *testing.T) string { return t.TempDir() }

func TestOnePreflightHasTheTurn(t *testing.T) {
	of := ofOneTest(t)
	var having, most, waited, had atomic.Int32
	var all sync.WaitGroup
	first, _, err := TakeTurn(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		all.Go(func() {
			turn, wait, err := TakeTurn(t.Context(), of)
			if err != nil {
				t.Error(err)
				return
			}
			defer turn.End()
			defer having.Add(-1)
			if wait > 0 {
				waited.Add(1)
			}
			most.Store(max(most.Load(), having.Add(1)))
			had.Add(1)
			time.Sleep(time.Millisecond)
		})
	}
	for !first.WasAskedFor() { // at least one process asks; the scheduler decides the order
	}
	if had.Load() != 0 {
		t.Error("the turn was had before it ended")
	}
	first.End()
	all.Wait()
	if most.Load() != 1 || had.Load() != 20 || waited.Load() == 0 {
		t.Errorf("%d had the turn at once, %d of 20 had it, and %d waited for it", most.Load(), had.Load(), waited.Load())
	}
}

func TestATurnThatDoesNotEnd(t *testing.T) {
	of := ofOneTest(t)
	if taken := HasTurn(of); taken != nil {
		t.Fatalf("nobody took the turn: %v", taken)
	}
	turn, waited, err := TakeTurn(t.Context(), of)
	if err != nil || waited != 0 {
		t.Fatalf("waited %v for a free turn: %v", waited, err)
	}
	if turn.WasAskedFor() {
		t.Error("nobody asked for the turn")
	}
	want := Taken{PID: os.Getpid(), UID: os.Getuid()}
	if got := HasTurn(of); got == nil || *got != want {
		t.Errorf("the turn is %v, want %v", got, &want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, waited, err = TakeTurn(ctx, of)
	if taken := (*Taken)(nil); !errors.As(err, &taken) || *taken != want || waited <= 0 || ctx.Err() == nil {
		t.Errorf("after %v: %v, want %v", waited, err, &want)
	}
	if _, taken := TryTurn(of); taken == nil || *taken != want {
		t.Errorf("the turn is %v, want %v", taken, &want)
	}
	if !turn.WasAskedFor() {
		t.Error("the turn was asked for")
	}
	turn.End()
	again, taken := TryTurn(of)
	if taken != nil {
		t.Errorf("after its end the turn is %v", taken)
	}
	again.End()
}
