// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// calm is how long nothing is drawn: most runs are over by then or soon after, and
// would only flicker.
const calm = 700 * time.Millisecond

// labelWidth is the column of the phases.
const labelWidth = 13

// live draws one line a phase, over and over, at the place where the report
// will begin. It neither hides the cursor nor colours anything, so that nothing need
// be undone, however the run ends.
type live struct {
	to    io.Writer
	size  func() (width, height int)
	awake chan os.Signal // the process was stopped and goes on

	drawn []string // what stands on the terminal, above the cursor
	width int      // which it had then
}

func newLive(terminal *os.File) *live {
	l := &live{to: terminal, awake: make(chan os.Signal, 1), size: func() (int, int) {
		width, height, err := term.GetSize(int(terminal.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24 // serial lines and some containers' terminals do not tell
		}
		return width, height
	}}
	signal.Notify(l.awake, syscall.SIGCONT)
	return l
}

func (l *live) update(now time.Time, p *Progress, last bool) {
	if last {
		signal.Stop(l.awake)
		l.draw(nil)
		return
	}
	p.mu.Lock()
	var lines []string
	if now.Sub(p.began) >= calm {
		for _, phase := range p.phases {
			lines = append(lines, fmt.Sprintf("%-*s %s", labelWidth, phase.Label, phase.state(now)))
		}
	}
	p.mu.Unlock()
	l.draw(lines)
}

// draw puts lines in the place of those that stand there, in one write. Every line
// ends with a line break: whatever else is printed then stands on a line of its own.
func (l *live) draw(lines []string) {
	select {
	case <-l.awake:
		l.drawn = nil // the shell has written below it, and that is not ours to wipe
	default:
	}
	width, height := l.size()
	lines = lines[max(len(lines)-height+1, 0):] // what has scrolled away cannot be drawn over
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, width-1, "…")
	}
	if slices.Equal(lines, l.drawn) && (width == l.width || len(lines) == 0) {
		return
	}
	var out bytes.Buffer
	if rows := min(rowsOf(l.drawn, width), height-1); rows > 0 {
		fmt.Fprintf(&out, "\r\x1b[%dA", rows)
	}
	for _, line := range lines {
		out.WriteString(line + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	l.drawn, l.width = lines, width
	l.to.Write(out.Bytes()) // a terminal that is gone must not end the run
}

// rowsOf is how many rows lines take up on a terminal that is as wide as this. One
// that was made narrower since has broken those that are too long for it now.
func rowsOf(lines []string, width int) int {
	rows := 0
	for _, line := range lines {
		rows += max((ansi.StringWidth(line)+width-1)/width, 1)
	}
	return rows
}
