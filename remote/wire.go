// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"preflight/internal/secret"
	"preflight/internal/text"
)

// The wire. An agent writes lines to its stdout: the marker, one JSON object, a
// newline. The first is its hello; every other names its node and the request
// it answers, and the last of a request says done, with a part or without. A part of an answer stands behind a
// tab, which no JSON has in it, so that only who wants the part has to read it. The other way go plain JSON
// lines, one a request. A line that asks nothing, or answers none, is a beat: its
// sender is there (beat.go). Nothing here knows what carries the lines.
//
// Marker lets the reader find our lines among whatever a login prints, also
// behind an unfinished line ("motd without newline@@preflight {…}"). The first
// marker of a line counts, so one inside our own JSON does no harm.
const Marker = "@@preflight "

// What is taken of a node: of one line, of everything together, and of everything
// that is not ours. A node that sends more is hung up on. The longest line of a node
// with eight GPUs has 9 KB, and all of them together 19 KB; of each peer that it calls or
// looks up it tells a little more.
const (
	maxLine  = 1 << 20
	maxTotal = 8 << 20
	maxNoise = 64 << 10
	// maxRequest is the longest line a node is sent: it names every host.
	maxRequest = 8 << 20
)

// Hello is the first line of an agent: who is talking. What reaches a caller of
// Reach is escaped.
type Hello struct {
	Build string    `json:"build"` // Go build ID of the running binary
	OS    string    `json:"os"`    // as GOOS
	Arch  string    `json:"arch"`  // as GOARCH
	Host  string    `json:"host"`  // what the machine calls itself
	PID   int       `json:"pid"`
	Path  string    `json:"path"` // of the running binary
	Time  time.Time `json:"time"` // the node's wall clock when it wrote this
}

type greeting struct {
	Hello Hello `json:"hello"`
}

// answer is every later line of an agent.
type answer struct {
	Node string `json:"node"`
	ID   uint64 `json:"id"`
	Part string `json:"part,omitempty"`
	Done bool   `json:"done,omitempty"`
	Err  string `json:"error,omitempty"` // with Done: why the method failed
	// Busy is set while the agent comes late to its own work (hostsys.Wait).
	Busy bool `json:"busy,omitempty"`
	// Unheard are the seconds for which nothing came from the head. It is the last
	// line of an agent that ends for it.
	Unheard float64 `json:"unheard,omitempty"`

	body json.RawMessage // behind the tab; nobody has read it
}

// isBeat tells a line that only says that its node is there.
func (a *answer) isBeat() bool {
	return a.ID == 0 && a.Part == "" && a.body == nil && !a.Done && a.Unheard == 0
}

// request is every line an agent is sent. The first is the opening: it names
// the node and says how long the agent may live.
type request struct {
	Open   *opening        `json:"open,omitempty"`
	ID     uint64          `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Cancel bool            `json:"cancel,omitempty"` // stop answering request ID
}

type opening struct {
	Node    string  `json:"node"`
	Seconds float64 `json:"seconds"` // of life from now on
	Beat    float64 `json:"beat"`    // seconds between the beats of either end; 0 = as it was
}

// beatLine is a request of nothing: to 10,000 nodes it is sent 5,000 times a second.
var beatLine = []byte("{}\n")

// tooMuch is a node that sent more than it may.
type tooMuch struct{ limit string }

func (e *tooMuch) Error() string { return "sent more than " + e.limit }

// bodyBehind is what stands between an answer and its body.
var bodyBehind = []byte("\t")

// lineReader splits what a node sends into our lines and noise.
type lineReader struct {
	in    *bufio.Reader
	noise *noise
	line  *bytes.Buffer
	total int
}

// lines are buffers for one line each, of keptLine bytes at most: what one large answer needed is not kept.
var lines = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keptLine = 1 << 16

// readAhead is little, as every node of a run has its reader, most of the time for nothing.
const readAhead = 1 << 10

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, readAhead), noise: &noise{}}
}

// next returns the next of our lines without its marker and newline, valid
// until the call after. The error is io.EOF at a clean end,
// io.ErrUnexpectedEOF in the middle of a line of ours, a *tooMuch past a
// limit, or the carrier's own.
func (r *lineReader) next() ([]byte, error) {
	for {
		err := r.read()
		before, ours, found := bytes.Cut(r.line.Bytes(), []byte(Marker))
		if excess := r.noise.add(before); excess != nil {
			return nil, excess
		}
		switch {
		case found && errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case found:
			return bytes.TrimRight(ours, "\r\n"), nil
		}
	}
}

// read fills r.line with everything up to and including the next newline.
func (r *lineReader) read() error {
	if r.line != nil && r.line.Cap() <= keptLine {
		r.line.Reset()
		lines.Put(r.line)
	}
	r.line = nil // while nothing comes, others have use for it
	for {
		chunk, err := r.in.ReadSlice('\n')
		if r.line == nil {
			r.line = lines.Get().(*bytes.Buffer)
		}
		r.line.Write(chunk)
		r.total += len(chunk)
		switch {
		case r.total > maxTotal:
			return &tooMuch{fmt.Sprintf("%d MiB", maxTotal>>20)}
		case r.line.Len() > maxLine:
			return &tooMuch{fmt.Sprintf("%d MiB in one line", maxLine>>20)}
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
		const noLater = maxNoise + len(Marker)
		if r.line.Len() > noLater && !bytes.Contains(r.line.Bytes()[:noLater], []byte(Marker)) {
			return nil // all of it is noise, and too much of it
		}
	}
}

// noise keeps a little of what a login prints besides our lines. Its bytes are
// a stranger's, so they are kept escaped. It is safe for concurrent use.
type noise struct {
	mu    sync.Mutex
	bytes int
	lines []string
}

const (
	noiseLines = 20  // kept
	noiseWidth = 200 // bytes kept of each

	noiseLooked = 4 << 10 // of each, for secrets
)

// add takes one line, or what stood before the marker in one.
func (n *noise) add(line []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bytes += len(line)
	raw := bytes.TrimRight(line, "\r\n")
	if len(raw) > 0 && len(n.lines) < noiseLines {
		shown := secret.Hide(string(raw[:min(len(raw), noiseLooked)])) // half a token would be taken for none
		n.lines = append(n.lines, text.Escape(shown[:min(len(shown), noiseWidth)]))
	}
	if n.bytes > maxNoise {
		return &tooMuch{fmt.Sprintf("%d KiB that the agent did not write", maxNoise>>10)}
	}
	return nil
}

// kept returns the lines so far.
func (n *noise) kept() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.lines...)
}
