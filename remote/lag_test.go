// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"preflight/internal/hostsys"
)

// TestExcused: what is said of a node that was not heard in time is of this machine, where that
// lost more than anybody waits for, and only there.
func TestExcused(t *testing.T) {
	hostsys.IgnoreLag(true)
	defer hostsys.IgnoreLag(false)
	const limit = 2 * time.Millisecond
	silence := &Error{Host: "w1", Stage: StageGreet, Cause: Silent, Err: errors.New("it never greets")}
	other := errors.New("something else")
	waited := func(lose time.Duration, given bool) context.Context {
		var lost atomic.Int64
		ctx, cancel := hostsys.WithTimeout(t.Context(), limit, func() time.Duration { return time.Duration(lost.Load()) })
		defer cancel()
		if lost.Store(int64(lose)); given {
			cancel()
		}
		<-ctx.Done()
		return ctx
	}
	for _, c := range []struct {
		name  string
		lost  time.Duration
		given bool // up, by the user
		err   error
		want  Cause // "" for what it was
	}{
		{"nothing was lost", 0, false, silence, ""},
		{"half was lost", limit, false, silence, ""},
		{"more than nine tenths were lost", 20 * limit, false, silence, HeadBusy},
		{"given up before the time was over", 20 * limit, true, silence, ""},
		{"an error of another kind", 20 * limit, false, other, ""},
	} {
		got := excused(waited(c.lost, c.given), c.err)
		failure, is := errors.AsType[*Error](got)
		switch {
		case c.want == "" && got != c.err:
			t.Errorf("%s: %v, want %v", c.name, got, c.err)
		case c.want != "" && (!is || failure.Cause != c.want || failure.Host != "w1" || failure.Stage != StageGreet || !strings.Contains(got.Error(), "it never greets")):
			t.Errorf("%s: %v, want %s of w1 in the words of %v", c.name, got, c.want, c.err)
		}
	}
}

// TestLagOfAnAgent: a node that tells of more than can be is believed as much of it as has passed, and its pace is
// that of the time since it told last.
func TestLagOfAnAgent(t *testing.T) {
	for _, c := range []struct {
		name        string
		since, tell time.Duration
		pace        float64
	}{
		{"idle", time.Second, 0, 1},
		{"half of it", 2 * time.Second, time.Second, 0.5},
		{"all of it", 2 * time.Second, 2 * time.Second, 1 - fullPace},
		{"more than has passed", 2 * time.Second, time.Hour, 1 - fullPace},
		{"less than before", 2 * time.Second, -time.Second, 1},
		{"at once upon another", paceTime / 2, paceTime / 2, 1},
	} {
		l := lag{began: time.Now().Add(-c.since), at: time.Now().Add(-c.since)}
		l.tell(c.tell.Seconds())
		if pace := l.pace(); pace < c.pace-0.01 || pace > c.pace+0.01 {
			t.Errorf("%s: a pace of %.2f, want %.2f", c.name, pace, c.pace)
		}
		if lost := l.lost(); lost > c.since+time.Second {
			t.Errorf("%s: it has lost %s of %s", c.name, lost, c.since)
		}
	}
}

// TestPaceOfAnAgent: a moment of which an agent lost all is little of a life that was idle.
func TestPaceOfAnAgent(t *testing.T) {
	a := &Agent{lag: lag{began: time.Now().Add(-4 * time.Second), at: time.Now().Add(-time.Second)}}
	a.lag.tell(1)
	if pace := a.Pace(); pace < 0.7 || pace > 0.8 {
		t.Errorf("a pace of %.2f, and it lost one second of four", pace)
	}
	begun := &Agent{lag: lag{began: time.Now().Add(-700 * time.Millisecond), at: time.Now(), told: 650 * time.Millisecond}}
	if pace := begun.Pace(); pace < 0.7 {
		t.Errorf("who was kept from its work while it started has a pace of %.2f", pace)
	}
	if pace := (&Agent{lag: lag{began: time.Now(), told: time.Hour}}).Pace(); pace > 1-fullPace+0.01 {
		t.Errorf("a pace of %.2f of an agent that lost all", pace)
	}
}
