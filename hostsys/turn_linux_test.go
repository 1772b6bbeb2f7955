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

// ofOneTest is a turn that no other test wants, in whichever checkout it runs.
func ofOneTest(t *testing.T) string { return t.TempDir() }

func TestOnePreflightHasTheTurn(t *testing.T) {
	of := ofOneTest(t)
	var having, most, waited atomic.Int32
	var all sync.WaitGroup
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
			time.Sleep(time.Millisecond)
		})
	}
	all.Wait()
	if most.Load() != 1 || waited.Load() != 19 {
		t.Errorf("%d had the turn at once, and %d of 20 waited for it", most.Load(), waited.Load())
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
	if taken := (*Taken)(nil); !errors.As(err, &taken) || *taken != want || waited < 40*time.Millisecond {
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
