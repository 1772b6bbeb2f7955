package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"preflight"
	"preflight/hostfile"
	"preflight/report"
)

// progress is one live line on a terminal: how many nodes have been reached
// and probed, and which ones everybody is waiting for.
type progress struct {
	lines *mpb.Progress // nil when nobody looks
	bar   *mpb.Bar

	mu      sync.Mutex
	total   int
	reached int
	ended   int
	since   map[string]time.Time // nodes under way
}

// slowest is how many laggards the line names, and after which time a node is one.
const (
	slowest   = 3
	slowAfter = time.Second
)

// startProgress draws on standard error if that is a terminal.
func startProgress(config Config, total int) *progress {
	p := &progress{total: total, since: map[string]time.Time{}}
	if config.Quiet || total == 0 || !term.IsTerminal(int(os.Stderr.Fd())) {
		return p
	}
	p.lines = mpb.New(append(screen(os.Stderr), mpb.WithRefreshRate(120*time.Millisecond))...)
	// One more than there are nodes: the line stays while they call each other.
	p.bar = p.lines.New(int64(total)+1, mpb.NopStyle(), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return p.text(time.Now()) })))
	return p
}

// screen lets mpb draw on a terminal. Of one that does not tell its size, as
// serial lines and some containers' are, mpb would use no column and no row; it
// is taken for 80 columns, which mpb does only for what it thinks is none.
func screen(terminal *os.File) []mpb.ContainerOption {
	width, height, err := term.GetSize(int(terminal.Fd()))
	if err == nil && width > 0 && height > 0 {
		return []mpb.ContainerOption{mpb.WithOutput(terminal)}
	}
	return []mpb.ContainerOption{mpb.WithOutput(struct{ io.Writer }{terminal}), mpb.WithAutoRefresh(), mpb.WithWidth(80)}
}

// step takes in what one node did.
func (p *progress) step(node string, step preflight.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch step {
	case preflight.Started:
		p.since[node] = time.Now()
	case preflight.Reached:
		p.reached++
	case preflight.Probed, preflight.Lost:
		p.ended++
		delete(p.since, node)
		if p.bar != nil {
			p.bar.Increment()
		}
	}
}

// text is the line as it stands now.
func (p *progress) text(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("reached %d of %d, looked at %d", p.reached, p.total, p.ended)
	if p.ended == p.total {
		text += ", now they call each other"
	}
	var late []string
	for node, since := range p.since {
		if now.Sub(since) > slowAfter {
			late = append(late, node)
		}
	}
	if len(late) == 0 {
		return text
	}
	slices.SortFunc(late, func(a, b string) int {
		return cmp.Or(p.since[a].Compare(p.since[b]), strings.Compare(a, b))
	})
	oldest := now.Sub(p.since[late[0]]).Round(time.Second)
	more := ""
	if len(late) > slowest {
		more = fmt.Sprintf(" and %d more", len(late)-slowest)
		late = late[:slowest]
	}
	return fmt.Sprintf("%s, waiting %s for %s%s", text, oldest, report.Escape(hostfile.Fold(late)), more)
}

// stop wipes the line, so that the report starts on a clean one.
func (p *progress) stop() {
	if p.lines == nil {
		return
	}
	p.bar.Abort(true)
	p.lines.Wait()
}
