// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"preflight/fleet"
	"preflight/hostfile"
	"preflight/internal/text"
)

// Cleaning is the one phase that is no part of a run: preflight clean.
var Cleaning = fleet.Phase{Label: "clean"}

const (
	// mostNamed is how many of those waited for are named.
	mostNamed = 3
	// slowAfter is the time after which a node is waited for, and slowFactor how
	// many times as long as the others it must take as well: in a large fleet on a
	// small machine everybody takes seconds, and nobody is slow.
	slowAfter  = time.Second
	slowFactor = 3
	// rateAfter is how long a phase must have lasted before its rate says
	// anything of the rest.
	rateAfter = 3 * time.Second
)

type phase struct {
	fleet.Phase
	nodes int           // that may take part, 0 where it is this machine's alone
	takes time.Duration // what its work is meant to last, 0 where it is over when it is done
	until time.Time     // of a phase of no nodes: when it is given up

	began, last   time.Time // its beginning and the last step of a node
	closed        time.Time // when it was said to be over, zero before: long after last, where others were waited for
	through, lost int
	spent         time.Duration // by those who are through, together
	waits         map[string]wait
	losses        []loss // the first few
}

// wait is since when a node is at it, and until when it may be.
type wait struct {
	since, until time.Time
}

type loss struct {
	at    time.Time
	event fleet.Event
}

// mostLosses is how many lost nodes are named one by one. The report names all.
const mostLosses = 10

func (p *phase) add(now time.Time, event fleet.Event) {
	if event.Node != "" {
		p.last = now
	}
	switch {
	case event.Node == "" && event.Step == fleet.Began:
		p.nodes, p.takes, p.until = event.Nodes, event.Takes, event.Until
	case event.Node == "":
		p.closed = now
	case event.Step == fleet.Began:
		p.waits[event.Node] = wait{now, event.Until}
	case event.Step == fleet.Ended:
		p.through++
		p.spent += now.Sub(p.waits[event.Node].since)
		delete(p.waits, event.Node)
	case event.Step == fleet.Lost:
		p.lost++
		delete(p.waits, event.Node)
		if len(p.losses) < mostLosses {
			p.losses = append(p.losses, loss{now, event})
		}
	}
}

// over is whether all who take part are through, or it was said to be over.
func (p *phase) over() bool {
	return !p.closed.IsZero() || p.nodes > 0 && p.through+p.lost == p.nodes
}

// ended is when a phase that is over was known to be.
func (p *phase) ended() time.Time {
	if p.closed.IsZero() {
		return p.last
	}
	return p.closed
}

// lasted is how long a phase that is over kept its nodes busy, or this machine.
func (p *phase) lasted() time.Duration {
	if p.through+p.lost == 0 {
		return p.ended().Sub(p.began)
	}
	return p.last.Sub(p.began)
}

// state is how far the phase is now, in one line that is safe to show.
func (p *phase) state(now time.Time) string {
	counts := p.counts()
	if p.over() {
		return joined(", ", counts, fmt.Sprintf("%.1f s", p.lasted().Seconds()))
	}
	left := ""
	if rest := p.rest(now); rest > 0 {
		left = "about " + inSeconds(rest) + " left"
	}
	return cmp.Or(joined("; ", joined(", ", counts, left), p.waiting(now)), "under way")
}

// counts is "97 of 100 nodes, 1 lost", "" for a phase of no nodes.
func (p *phase) counts() string {
	if p.nodes == 0 {
		return ""
	}
	lost := ""
	if p.lost > 0 {
		lost = fmt.Sprintf("%d lost", p.lost)
	}
	return joined(", ", fmt.Sprintf("%d of %s", p.through, text.Plural(p.nodes, "node")), lost)
}

// rest is how much longer the phase will take, 0 where nobody can say: by its
// nature, or by how fast nodes have come through so far. Those who are slow count
// for nothing here: no rate tells when they come.
func (p *phase) rest(now time.Time) time.Duration {
	lasted := now.Sub(p.began)
	if p.takes > 0 {
		return max(p.takes-lasted, 0)
	}
	_, slow := p.slow(now)
	came := p.through + p.lost
	left := p.nodes - came - slow
	if lasted < rateAfter || came == 0 || left <= 0 {
		return 0
	}
	rest := time.Duration(float64(lasted) * float64(left) / float64(came))
	if rest < time.Second {
		return 0
	}
	return rest
}

// slow is how many nodes everybody waits for, and the first few of them, the slowest
// first. Of ten thousand it looks at each once: that is done at every tick.
func (p *phase) slow(now time.Time) (slowest []string, all int) {
	limit := p.takes + slowAfter
	if p.takes == 0 && p.through > 0 {
		limit = max(limit, slowFactor*p.spent/time.Duration(p.through))
	}
	order := func(a, b string) int {
		return cmp.Or(p.waits[a].since.Compare(p.waits[b].since), strings.Compare(a, b))
	}
	for node, wait := range p.waits {
		if now.Sub(wait.since) < limit {
			continue
		}
		all++
		if len(slowest) == mostNamed && order(slowest[mostNamed-1], node) < 0 {
			continue
		}
		place, _ := slices.BinarySearchFunc(slowest, node, order)
		slowest = slices.Insert(slowest, place, node)
		slowest = slowest[:min(len(slowest), mostNamed)]
	}
	return slowest, all
}

// waiting is "waiting 3 s for w[7,9], 57 s more at most" or, where nodes wait for
// each other, "w[7,9] waiting 3 s for others, …"; "" when nobody is slow. The times
// are those of the slowest.
func (p *phase) waiting(now time.Time) string {
	if late, all := p.slow(now); all > 0 {
		names := text.Escape(hostfile.Fold(late))
		if more := all - len(late); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		slowest := p.waits[late[0]]
		waited := slowest.lasted(now) + " for " + names
		if p.Together {
			waited = names + " " + slowest.lasted(now) + " for others"
		}
		return joined(", ", waited, slowest.atMost(now))
	}
	alone := wait{p.began, p.until}
	if p.until.IsZero() || now.Sub(p.began) < slowAfter {
		return ""
	}
	return joined(", ", alone.lasted(now), alone.atMost(now))
}

// lasted is for how long it is waited.
func (w wait) lasted(now time.Time) string {
	return "waiting " + inSeconds(now.Sub(w.since).Truncate(time.Second))
}

// atMost is for how long it will be waited, "" where nobody can say.
func (w wait) atMost(now time.Time) string {
	if !w.until.After(now) {
		return ""
	}
	return inSeconds(w.until.Sub(now)) + " more at most"
}

func joined(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), separator)
}

// inSeconds rounds up, so that nothing is promised to take no time.
func inSeconds(d time.Duration) string {
	if d >= 2*time.Minute {
		return fmt.Sprintf("%.0f min", math.Ceil(d.Minutes()))
	}
	return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
}
