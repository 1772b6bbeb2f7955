// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"preflight/internal/hostsys"
)

// toil returns a wait in which this process was too busy to keep up.
func toil(t *testing.T) hostsys.Wait {
	t.Helper()
	t.Cleanup(hostsys.Watch())
	w := hostsys.BeginWait()
	done := make(chan struct{})
	for range 50 * runtime.GOMAXPROCS(0) {
		go func() {
			for w.Took() < time.Second {
			}
			done <- struct{}{}
		}()
	}
	for range 50 * runtime.GOMAXPROCS(0) {
		<-done
	}
	return w
}

// TestExcuse checks that a node that did not answer in time is not blamed if this machine was busy.
// A node that answered is blamed.
func TestExcuse(t *testing.T) {
	silence := &Error{Host: "w1", Stage: StageGreet, Cause: Silent, Err: errors.New("it never greets")}
	jump := &Error{Host: "w1", Cause: JumpFailed, Detail: map[string]string{"cause": string(TimedOut)}, Err: errors.New("it never greets")}
	refusal, other := &Error{Host: "w1", Cause: Refused, Err: errors.New("refused")}, errors.New("something else")
	for _, err := range []error{silence, jump, refusal, other} {
		if got := Excuse(err, hostsys.BeginWait()); got != err {
			t.Errorf("an idle machine: %v of %v", got, err)
		}
	}
	busy := toil(t)
	for _, err := range []error{refusal, other} {
		if got := Excuse(err, busy); got != err {
			t.Errorf("a busy machine: %v of %v", got, err)
		}
	}
	for _, err := range []*Error{silence, jump} {
		failure, ok := errors.AsType[*Error](Excuse(err, busy))
		if !ok || failure.Cause != HeadBusy || failure.Host != "w1" || failure.Stage != err.Stage || !strings.Contains(failure.Error(), "it never greets") {
			t.Errorf("a busy machine: %v of %v", failure, err)
		}
	}
}
