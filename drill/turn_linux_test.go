// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
)

// freePort returns a port that no process uses at this moment.
func freePort(t *testing.T) int {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// TestRunsTakeTurns starts runs at the same time. They must serve on the same port one after the
// other, and each run must meet in its own store.
func TestRunsTakeTurns(t *testing.T) {
	port := freePort(t)
	var waited atomic.Int32
	var all sync.WaitGroup
	for run := range 8 {
		all.Go(func() {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			token := fmt.Sprint("run", run)
			host := Host{Token: token, Node: "w1", Port: port, Generation: facts.GenerationPings, Patience: 20 * time.Second}
			err := host.Serve(ctx, func(s Serving) {
				if s.Waited > 0 {
					waited.Add(1)
				}
				if s.Port != port {
					t.Errorf("%s: %+v", token, s)
				}
				go func() {
					defer leave()
					for _, seen := range joinAll(t, join(token, "w1", port, 2, host.Generation), join(token, "w2", port, 2, host.Generation)) {
						if seen.Failed != "" {
							t.Errorf("%s: %+v", token, seen)
						}
					}
				}()
			})
			if err != nil {
				t.Errorf("%s: %v", token, err)
			}
		})
	}
	all.Wait()
	if waited.Load() == 0 {
		t.Error("nobody waited for anybody")
	}
}

func TestAPreflightThatDoesNotLeave(t *testing.T) {
	port := freePort(t)
	turn, _, err := hostsys.TakeTurn(t.Context(), hostsys.TurnAtPort(port))
	if err != nil {
		t.Fatal(err)
	}
	defer turn.End()
	var got Serving
	host := Host{Token: "token", Node: "w1", Port: port, Generation: facts.GenerationPings, Patience: 50 * time.Millisecond}
	if err := host.Serve(t.Context(), func(s Serving) { got = s }); err != nil {
		t.Fatal(err)
	}
	want := hostsys.Taken{PID: os.Getpid(), UID: os.Getuid()}
	if got.Taken == nil || *got.Taken != want || got.Port != 0 || got.Waited < 40*time.Millisecond {
		t.Errorf("%+v, taken by %+v, want %+v", got, got.Taken, want)
	}
}

// TestAPortThatIsLetGoOfLate checks a preflight that was killed. It may release its turn before its
// port.
func TestAPortThatIsLetGoOfLate(t *testing.T) {
	port := freePort(t)
	turn, _, err := hostsys.TakeTurn(t.Context(), hostsys.TurnAtPort(port))
	if err != nil {
		t.Fatal(err)
	}
	held, err := net.Listen("tcp", fmt.Sprint(":", port))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() {
		turn.End()
		time.Sleep(20 * time.Millisecond)
		held.Close()
	})
	ctx, leave := context.WithCancel(t.Context())
	host := Host{Token: "token", Node: "w1", Port: port, Generation: facts.GenerationPings, Patience: 20 * time.Second}
	if err := host.Serve(ctx, func(Serving) { leave() }); err != nil {
		t.Error(err)
	}
}

// TestRunsMeasureInTurn checks that one run after the other gets the turn. A run that does not wait
// long enough must be told which process has the turn.
func TestRunsMeasureInTurn(t *testing.T) {
	of := t.TempDir() // a name for the turn that no other test uses
	first, end := context.WithCancel(t.Context())
	had, second := make(chan Had), make(chan Had)
	hold := func(ctx context.Context, patience time.Duration, had chan<- Had) {
		_ = Turn{Of: of, Patience: patience}.Hold(ctx, func(h Had) error { had <- h; return nil })
	}
	go hold(first, time.Minute, had)
	if h := <-had; h.Taken != nil {
		t.Fatalf("the turn is free, and taken by %v", h.Taken)
	}
	go hold(t.Context(), time.Millisecond, had)
	if h := <-had; h.Taken == nil || h.Taken.PID != os.Getpid() {
		t.Errorf("the turn is taken by %v", h.Taken)
	}
	go hold(t.Context(), time.Minute, second)
	select {
	case <-second:
		t.Error("two have the turn")
	case <-time.After(50 * time.Millisecond):
	}
	end()
	if h := <-second; h.Taken != nil {
		t.Errorf("the turn has ended, and is taken by %v", h.Taken)
	}
}
