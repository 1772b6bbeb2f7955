package main

import (
	"os"
	"preflight/fleet"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress takes in the steps of a run and has them shown on standard error while
// it lasts. Only its own goroutine writes: a terminal that is held or a pipe that
// is full holds up nobody who reaches a node.
type progress struct {
	began time.Time
	to    display // nil when nobody looks
	quit  chan struct{}
	shown sync.WaitGroup

	mu     sync.Mutex
	phases []*phase // in the order they began
}

// How to show progress, as container builders name it.
const (
	progressAuto  = "auto"
	progressPlain = "plain"
	progressNone  = "none"
)

// display is a way to show progress.
type display interface {
	// update tells how far things are now. It is called every tick and, with last
	// set, once when the run is over.
	update(now time.Time, p *progress, last bool)
}

// tick is how often what is shown is brought up to date.
const tick = 200 * time.Millisecond

// startProgress shows what it hears until stop.
func startProgress(config Config) *progress {
	p := &progress{began: time.Now(), to: config.display(os.Stderr), quit: make(chan struct{})}
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

// display is how to show progress on standard error, nil for not at all. What is
// asked for by name is shown wherever that leads; otherwise only a terminal is
// told, and one that cannot move its cursor in lines that stay.
func (c Config) display(stderr *os.File) display {
	switch {
	case c.Quiet, c.Progress == progressNone:
		return nil
	case c.Progress == progressPlain:
		return &plainProgress{to: stderr}
	case !term.IsTerminal(int(stderr.Fd())):
		return nil
	case os.Getenv("TERM") == "dumb":
		return &plainProgress{to: stderr}
	}
	return newLiveProgress(stderr)
}

// stop ends the showing, so that the report starts on a clean line.
func (p *progress) stop() {
	close(p.quit)
	p.shown.Wait()
}

// hear takes in one step.
func (p *progress) hear(event fleet.Event) {
	if p.to == nil {
		return
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(now, event)
}

func (p *progress) take(now time.Time, event fleet.Event) {
	current := p.current(event.Phase)
	if event.Step == fleet.Began && event.Node == "" {
		current = &phase{Phase: event.Phase, began: now, last: now, waits: map[string]wait{}}
		p.phases = append(p.phases, current)
	}
	if current != nil { // else it is told to end and never began, for nobody was reached
		current.take(now, event)
	}
}

// current is the phase of a name that began last, nil before any did.
func (p *progress) current(name fleet.Phase) *phase {
	for i := len(p.phases) - 1; i >= 0; i-- {
		if p.phases[i].Phase == name {
			return p.phases[i]
		}
	}
	return nil
}
