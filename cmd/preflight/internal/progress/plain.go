// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"preflight/fleet"
	"preflight/internal/secret"
	"preflight/internal/text"
	"preflight/remote"
)

// firstReminder is after how long it is reported that somebody is waited for; every next
// time comes when that has doubled.
const firstReminder = 5 * time.Second

// plain tells in lines that stay, for logs: what began, what ended, who was
// lost and of what, and who is waited for.
type plain struct {
	to      io.Writer
	printed []printed // by phase
}

type printed struct {
	losses   int
	ended    bool
	reminder time.Duration
}

// news is one line and when it happened.
type news struct {
	at   time.Time
	text string
}

func (l *plain) update(now time.Time, p *Progress, _ bool) {
	p.mu.Lock()
	lines := l.news(now, p.phases)
	began := p.began
	p.mu.Unlock()
	if len(lines) == 0 {
		return
	}
	var out strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&out, "preflight: %5.1f s  %s\n", line.at.Sub(began).Seconds(), line.text)
	}
	io.WriteString(l.to, out.String()) // a closed standard error must not end the run
}

// news is what happened since it was asked last, in the order it happened.
func (l *plain) news(now time.Time, phases []*phase) (lines []news) {
	for i, phase := range phases {
		label := phase.Label
		add := func(at time.Time, format string, values ...any) {
			lines = append(lines, news{at, label + fmt.Sprintf(format, values...)})
		}
		if i == len(l.printed) {
			l.printed = append(l.printed, printed{reminder: firstReminder})
			nodes := ""
			if phase.nodes > 0 {
				nodes = text.Plural(phase.nodes, "node")
			}
			add(phase.began, ": %s", joined(", ", "begins", nodes))
		}
		done := &l.printed[i]
		for _, loss := range phase.losses[done.losses:] {
			add(loss.at, ": lost %s: %s", text.Escape(loss.event.Node), text.Escape(reason(loss.event)))
		}
		done.losses = len(phase.losses)
		waited := now.Sub(phase.began)
		switch {
		case done.ended:
		case phase.over():
			done.ended = true
			add(phase.ended(), ": %s", phase.state(now))
		case waited >= done.reminder && (len(phase.waits) > 0 || !phase.until.IsZero()): // else nobody is at it just now
			add(now, ": %s", phase.state(now))
		}
		for done.reminder <= waited {
			done.reminder *= 2
		}
	}
	slices.SortStableFunc(lines, func(a, b news) int { return a.at.Compare(b.at) })
	return lines
}

// reason is why a node was lost. The node itself and the phase are named before it.
func reason(event fleet.Event) string {
	if failure, ok := event.Err.(*remote.Error); ok {
		return secret.Hide(fmt.Sprintf("%s: %v", failure.Cause, failure.Err))
	}
	return cmp.Or(secret.Hide(fmt.Sprint(event.Err)), "unknown reason")
}
