// SPDX-License-Identifier: Apache-2.0

// Package progress shows the progress of a run on standard error.
//
// It does not delay the run, and does not repeat information from the report.
package progress

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"preflight/fleet"
	"preflight/hostfile"
	"preflight/internal/secret"
	"preflight/internal/text"
	"preflight/remote"
)

// The values of --progress. Container builders use the same names.
const (
	Auto  = "auto"  // one live line, on a terminal only
	Plain = "plain" // one line per step, for logs
	None  = "none"
)

// Modes lists all values of --progress.
var Modes = []string{Auto, Plain, None}

// Cleaning is the phase of preflight clean. All other phases belong to runs.
const Cleaning fleet.Phase = "clean"

const (
	// tick is the time between two updates.
	tick = 200 * time.Millisecond
	// calm is how long the terminal stays empty at the start. Most runs end soon after that time,
	// and the line would only flicker.
	calm = 700 * time.Millisecond
	// slowAfter is the time after which the line names a node that has not answered.
	slowAfter = time.Second
	// mostNamed is the maximum number of slow nodes in the line.
	mostNamed = 3
	// mostLosses is the maximum number of plain lines about lost nodes per phase. The report names
	// all lost nodes.
	mostLosses = 10
	// firstReminder is the age of a phase at which a plain line names the slow nodes. The age
	// doubles before each further line.
	firstReminder = 5 * time.Second
)

// Progress receives the steps of a run and shows them on standard error. Only its own goroutine
// writes, so a blocked terminal or pipe does not delay the run.
type Progress struct {
	began time.Time
	none  bool       // show nothing
	width func() int // width of the terminal; nil for plain lines
	quit  chan struct{}
	shown sync.WaitGroup

	mu     sync.Mutex
	phases []*phase // phases in progress, in the order in which they began
	lines  string   // plain lines that are not yet written
	drawn  string   // the line that the terminal shows
}

type phase struct {
	name     fleet.Phase
	began    time.Time
	reminder time.Duration // the age at which the next plain line names the slow nodes
	nodes    int           // number of nodes; 0 if only the launching machine works
	done     int
	lost     int
	waits    []wait // nodes that have not answered, the longest wait first
}

// wait is a node that has not answered yet.
type wait struct {
	node  string
	since time.Time
}

// Start shows the steps of a run until [Progress.Stop], in one of the [Modes]. quiet means None.
func Start(mode string, quiet bool) *Progress {
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	p := &Progress{began: time.Now(), none: quiet || mode == None || mode == Auto && !terminal, quit: make(chan struct{})}
	if mode == Auto && os.Getenv("TERM") != "dumb" { // a dumb terminal cannot clear a line
		p.width = terminalWidth
	}
	if !p.none {
		p.shown.Go(p.show)
	}
	return p
}

// terminalWidth returns the width of the terminal. It returns 80 for serial lines and containers,
// which may not report a width.
func terminalWidth() int {
	if width, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil && width > 0 {
		return width
	}
	return 80
}

// Stop ends the progress and clears its line, so that the report starts on an empty line.
func (p *Progress) Stop() {
	close(p.quit)
	p.shown.Wait()
}

func (p *Progress) show() {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for last := false; !last; {
		select {
		case <-ticks.C:
		case <-p.quit:
			last = true
		}
		os.Stderr.WriteString(p.update(time.Now(), last)) // the run continues if standard error is closed
	}
}

// Take records one step of the run.
func (p *Progress) Take(event fleet.Event) {
	if !p.none {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.take(time.Now(), event)
	}
}

func (p *Progress) take(now time.Time, event fleet.Event) {
	i := slices.IndexFunc(p.phases, func(known *phase) bool { return known.name == event.Phase })
	switch {
	case event.Node == "" && event.Step == fleet.Began:
		p.begin(now, event)
	case i < 0: // the phase is over, or had no nodes
	case event.Node != "" && event.Step == fleet.Began:
		p.phases[i].waits = append(p.phases[i].waits, wait{event.Node, now})
	default:
		p.end(now, p.phases[i], event)
	}
}

func (p *Progress) begin(now time.Time, event fleet.Event) {
	began := &phase{name: event.Phase, began: now, reminder: firstReminder, nodes: event.Nodes}
	p.phases = append(p.phases, began)
	if event.Nodes == 0 {
		began.waits = []wait{{"the launching machine", now}}
		p.say(now, began, "begins")
	} else {
		p.say(now, began, "begins, "+text.Plural(event.Nodes, "node"))
	}
}

// end records the last step of a node or of a phase.
func (p *Progress) end(now time.Time, at *phase, event fleet.Event) {
	at.waits = slices.DeleteFunc(at.waits, func(w wait) bool { return event.Node == "" || w.node == event.Node })
	switch {
	case event.Step == fleet.Lost:
		if at.lost++; at.lost <= mostLosses {
			p.say(now, at, "lost "+text.Escape(event.Node)+": "+text.Escape(reason(event.Err)))
		}
	case event.Node != "":
		at.done++
	}
	if event.Node == "" || at.done+at.lost == at.nodes {
		p.say(now, at, at.state(now, "ends"))
		p.phases = slices.DeleteFunc(p.phases, func(open *phase) bool { return open == at })
	}
}

// say adds a plain line.
func (p *Progress) say(now time.Time, at *phase, what string) {
	if p.width == nil {
		p.lines += fmt.Sprintf("preflight: %5.1f s  %s: %s\n", now.Sub(p.began).Seconds(), at.name, what)
	}
}

// update returns the text to write to standard error now. last means that the run is over.
func (p *Progress) update(now time.Time, last bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var states []string
	for _, phase := range p.phases {
		if last || len(phase.waits) == 0 {
			continue
		}
		states = append(states, string(phase.name)+": "+phase.state(now))
		if age := now.Sub(phase.began); age >= phase.reminder {
			phase.reminder = 2 * age
			p.say(now, phase, phase.state(now))
		}
	}
	if p.width == nil {
		lines := p.lines
		p.lines = ""
		return lines
	}
	line := ansi.Truncate(strings.Join(states, "; "), p.width()-1, "…")
	if line == p.drawn || now.Sub(p.began) < calm {
		return ""
	}
	p.drawn = line
	return "\r" + line + "\x1b[K"
}

// state returns the given parts and the state of the phase as one text. Node names are escaped.
func (p *phase) state(now time.Time, parts ...string) string {
	if p.nodes > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s", p.done, text.Plural(p.nodes, "node")))
	}
	if p.lost > 0 {
		parts = append(parts, fmt.Sprintf("%d lost", p.lost))
	}
	slow := sort.Search(len(p.waits), func(i int) bool { return now.Sub(p.waits[i].since) < slowAfter })
	if slow > 0 {
		names := text.Map(p.waits[:min(slow, mostNamed)], func(wait wait) string { return wait.node })
		waited := now.Sub(p.waits[0].since).Truncate(time.Second)
		waiting := fmt.Sprintf("waiting %s for %s", text.Duration(waited.Seconds()), text.Escape(hostfile.Fold(names)))
		if slow > mostNamed {
			waiting += fmt.Sprintf(" and %d more", slow-mostNamed)
		}
		parts = append(parts, waiting)
	}
	return cmp.Or(strings.Join(parts, ", "), "under way")
}

// reason returns why a node was lost, without the names of the node and the phase.
func reason(err error) string {
	if failure, ok := err.(*remote.Error); ok {
		err = fmt.Errorf("%s: %w", failure.Cause, failure.Err)
	}
	return secret.Hide(fmt.Sprint(err))
}
