// SPDX-License-Identifier: Apache-2.0

// Package progress shows on standard error how far a run is while it lasts.
//
// It refuses to hold up a run for that, and to say what the report says.
package progress

import (
	"os"
	"preflight/fleet"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress takes in the steps of a run and has them shown on standard error while
// it lasts. Only its own goroutine writes: a terminal that is held or a pipe that
// is full holds up nobody who reaches a node.
type Progress struct {
	began time.Time
	to    display // nil when nobody looks
	quit  chan struct{}
	shown sync.WaitGroup

	mu     sync.Mutex
	phases []*phase // in the order they began
}

// How to show progress, as container builders name it.
const (
	Auto  = "auto"
	Plain = "plain"
	None  = "none"
)

// Modes are all ways.
var Modes = []string{Auto, Plain, None}

// display is a way to show progress.
type display interface {
	// update tells how far things are now. It is called every tick and, with last
	// set, once when the run is over.
	update(now time.Time, p *Progress, last bool)
}

// tick is how often what is shown is brought up to date.
const tick = 200 * time.Millisecond

// Start shows the steps it takes in until [Progress.Stop], in one of the [Modes], and nothing where
// quiet is asked for.
func Start(mode string, quiet bool) *Progress {
	if quiet {
		mode = None
	}
	p := &Progress{began: time.Now(), to: displayOf(mode, os.Stderr), quit: make(chan struct{})}
	if p.to == nil {
		return p
	}
	p.shown.Go(func() {
		ticks := time.NewTicker(tick)
		defer ticks.Stop()
		for {
			select {
			case now := <-ticks.C:
				p.to.update(now, p, false)
			case <-p.quit:
				p.to.update(time.Now(), p, true)
				return
			}
		}
	})
	return p
}

// displayOf is how to show progress on standard error, nil for not at all. What is
// asked for by name is shown wherever that leads; otherwise only a terminal gets
// any, and one that cannot move its cursor in lines that stay.
func displayOf(mode string, stderr *os.File) display {
	switch {
	case mode == None:
		return nil
	case mode == Plain:
		return &plain{to: stderr}
	case !term.IsTerminal(int(stderr.Fd())):
		return nil
	case os.Getenv("TERM") == "dumb":
		return &plain{to: stderr}
	}
	return newLive(stderr)
}

// Stop ends the showing, so that the report starts on a clean line.
func (p *Progress) Stop() {
	close(p.quit)
	p.shown.Wait()
}

// Take takes in one step.
func (p *Progress) Take(event fleet.Event) {
	if p.to == nil {
		return
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(now, event)
}

func (p *Progress) add(now time.Time, event fleet.Event) {
	current := p.current(event.Phase)
	if event.Step == fleet.Began && event.Node == "" {
		current = &phase{Phase: event.Phase, began: now, last: now, waits: map[string]wait{}}
		p.phases = append(p.phases, current)
	}
	if current != nil { // else it ends and never began, for nobody was reached
		current.add(now, event)
	}
}

// current is the phase of a name that began last, nil before any did.
func (p *Progress) current(name fleet.Phase) *phase {
	for i := len(p.phases) - 1; i >= 0; i-- {
		if p.phases[i].Phase == name {
			return p.phases[i]
		}
	}
	return nil
}
