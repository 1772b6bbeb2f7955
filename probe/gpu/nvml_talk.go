// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/probe/nvml"
)

const (
	// maxLine and maxCards limit what preflight accepts from the child, which runs a driver's
	// library.
	maxLine  = 1 << 20
	maxCards = 1 << 10
)

// childOutput collects the child's output. The child's pipe writes to it while askNVML waits, until
// childOutput is closed.
type childOutput struct {
	onLine func(done bool) // called for each line

	mu     sync.Mutex
	closed bool
	lines  hostsys.Lines
	childReport
}

// childReport holds the content of a child's lines.
type childReport struct {
	seen facts.NVML
	at   nvml.Line // the call that was announced last
	last time.Time // when the last line arrived
	done bool
	// unloaded says why the child could not load NVML. It is "" if the child loaded it.
	unloaded string
}

func newChildOutput(onLine func(done bool)) *childOutput {
	t := &childOutput{onLine: onLine, childReport: childReport{seen: facts.NVML{Cards: []facts.Card{}}, last: time.Now()}}
	t.lines = hostsys.Lines{Most: maxLine, Take: t.handleLine}
	return t
}

// Write accepts the child's output.
func (t *childOutput) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return len(p), nil
	}
	return t.lines.Write(p)
}

// handleLine handles one line of output. Lines that are not the child's own are output of the
// library.
func (t *childOutput) handleLine(text []byte) {
	var line nvml.Line
	if json.Unmarshal(text, &line) == nil {
		t.addLine(line)
		t.onLine(t.done)
	}
}

// close returns the report. Output that arrives after close is dropped.
func (t *childOutput) close() *childReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return &t.childReport
}

// addLine adds one line to the facts.
func (w *childReport) addLine(line nvml.Line) {
	w.last = time.Now()
	switch {
	case line.Call != "":
		w.at = line
	case line.Unloaded != "":
		w.unloaded = line.Unloaded
	case line.System != nil:
		w.seen.Source = "nvml" // a library has answered
		w.seen.Driver, w.seen.Library, w.seen.CUDA = line.System.Driver, line.System.Library, line.System.CUDA
	case line.Seen != nil:
		w.see(*line.Seen)
	case line.Hidden > 0:
		w.seen.Hidden = line.Hidden
	case line.Topology != nil:
		w.seen.Topology = line.Topology
	case line.Peers != nil:
		w.seen.Peers = line.Peers
	case line.Failure != nil:
		w.seen.Failure = line.Failure
	case line.Done:
		w.done = true
	}
}

// see stores a GPU by its index. It replaces what was known about the GPU before.
func (w *childReport) see(card facts.Card) {
	if card.Index < 0 || card.Index >= maxCards {
		return
	}
	place, known := slices.BinarySearchFunc(w.seen.Cards, card.Index, func(c facts.Card, index int) int { return cmp.Compare(c.Index, index) })
	if known {
		w.seen.Cards[place] = card
	} else {
		w.seen.Cards = slices.Insert(w.seen.Cards, place, card)
	}
}

// fail records that the call announced last has failed. If the call was about one GPU, the failure
// is also recorded for that GPU.
func (w *childReport) fail(kind, text string) {
	failure := facts.NVMLFailure{Kind: kind, Call: w.at.Call, Text: text}
	w.seen.Failure = &failure
	if w.at.Card == nil {
		return
	}
	card := facts.Card{Index: *w.at.Card}
	if at := slices.IndexFunc(w.seen.Cards, func(known facts.Card) bool { return known.Index == card.Index }); at >= 0 {
		card = w.seen.Cards[at]
	}
	card.Failure = new(failure)
	w.see(card)
}

// subject returns what the last call was about: a GPU or the library.
func (w *childReport) subject() string {
	if w.at.Card != nil {
		return fmt.Sprintf("GPU %d", *w.at.Card)
	}
	return "the driver"
}

// call returns the last call.
func (w *childReport) call() string {
	if w.at.Card != nil {
		return fmt.Sprintf("%s of GPU %d", w.at.Call, *w.at.Card)
	}
	return w.at.Call
}

// crashMessage returns why the child ended before it was done. Go's report of a signal begins with
// the signal's name and continues for pages. The loader's report is one line.
func crashMessage(stderr string, err error) string {
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		for _, sign := range []string{"SIG", "panic: ", "fatal error: "} {
			if strings.HasPrefix(line, sign) {
				return line
			}
		}
		if _, symbol, found := strings.Cut(line, "symbol lookup error: "); found {
			return "symbol lookup error: " + symbol
		}
	}
	if err == nil {
		return "it was ended and printed nothing"
	}
	return hostsys.Complaint(stderr, err)
}
