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

// The wire format. An agent writes lines to its stdout: the marker, one JSON object, a newline. The
// first line is the agent's hello. Every later line names its node and the request that it answers.
// The last line of a request is marked done, with or without a part. A part of an answer follows
// after a tab, which never occurs in JSON, so that only code that needs the part parses it. The
// launching machine sends plain JSON lines, one per request. A line without a request or an answer
// is a heartbeat (beat.go). The format does not depend on the carrier.
//
// Marker lets the reader find these lines in whatever a login prints, even after an unfinished line
// ("motd without newline@@preflight {…}"). The first marker of a line counts, so a marker inside
// our own JSON does no harm.
const Marker = "@@preflight "

// The limits on what is accepted from a node: for one line, for all lines together, and for all
// text that the agent did not write. If a node sends more, the connection is closed. The longest
// line of a node with eight GPUs has 9 KB, and all lines together have 19 KB. Each peer that the
// node connects to or looks up adds a little.
const (
	maxLine  = 1 << 20
	maxTotal = 8 << 20
	maxNoise = 64 << 10
	// maxRequest is the maximum length in bytes of a line that is sent to a node. Such a line may
	// name every host.
	maxRequest = 8 << 20
)

// Hello is the first line of an agent. The values that Reach returns are escaped.
type Hello struct {
	Build string    `json:"build"` // Go build ID of the running binary
	OS    string    `json:"os"`    // the node's GOOS
	Arch  string    `json:"arch"`  // the node's GOARCH
	Host  string    `json:"host"`  // the machine's own name
	PID   int       `json:"pid"`
	Path  string    `json:"path"` // path of the running binary
	Time  time.Time `json:"time"` // the node's wall clock when it wrote the hello
}

type greeting struct {
	Hello Hello `json:"hello"`
}

// answer is any line of an agent after its hello.
type answer struct {
	Node string `json:"node"`
	ID   uint64 `json:"id"`
	Part string `json:"part,omitempty"`
	Done bool   `json:"done,omitempty"`
	Err  string `json:"error,omitempty"` // if Done: why the method failed
	// Busy means that the agent is too busy to keep up (hostsys.Wait).
	Busy bool `json:"busy,omitempty"`
	// Unheard is the number of seconds in which nothing came from the launching machine. It is set
	// in the last line of an agent that ends for this reason.
	Unheard float64 `json:"unheard,omitempty"`

	body json.RawMessage // the text after the tab, not parsed
}

// isBeat reports whether a line is only a heartbeat.
func (a *answer) isBeat() bool {
	return a.ID == 0 && a.Part == "" && a.body == nil && !a.Done && a.Unheard == 0
}

// request is any line that is sent to an agent. The first request is the opening, which names the
// node and limits the agent's life.
type request struct {
	Open   *opening        `json:"open,omitempty"`
	ID     uint64          `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Cancel bool            `json:"cancel,omitempty"` // stop answering request ID
}

type opening struct {
	Node    string  `json:"node"`
	Seconds float64 `json:"seconds"` // how long the agent may live from now on
	Beat    float64 `json:"beat"`    // seconds between heartbeats in both directions; 0 = unchanged
}

// beatLine is an empty request. With 10,000 nodes, it is sent 5,000 times a second.
var beatLine = []byte("{}\n")

// tooMuch is the error for a node that sent more than a limit allows.
type tooMuch struct{ limit string }

func (e *tooMuch) Error() string { return "sent more than " + e.limit }

// bodyBehind separates an answer from its body.
var bodyBehind = []byte("\t")

// lineReader splits the text that a node sends into the agent's lines and noise.
type lineReader struct {
	in    *bufio.Reader
	noise *noise
	line  *bytes.Buffer
	total int
}

// lines holds buffers for one line each. A buffer that a long line made larger than keptLine bytes
// is not reused.
var lines = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keptLine = 1 << 16

// readAhead is small, because every node of a run has a reader, and most readers are idle.
const readAhead = 1 << 10

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, readAhead), noise: &noise{}}
}

// next returns the agent's next line without its marker and newline, valid until the following
// call. The error is io.EOF at a clean end, io.ErrUnexpectedEOF in the middle of an agent's line,
// and a *tooMuch beyond a limit. Any other error is the carrier's own.
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
	r.line = nil // while this reader waits, others can use the buffer
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
			return nil // the whole line is noise, and too long
		}
	}
}

// noise keeps part of the text that a login prints in addition to the agent's lines. The text is
// untrusted, so it is stored escaped. noise is safe for concurrent use.
type noise struct {
	mu    sync.Mutex
	bytes int
	lines []string
}

const (
	noiseLines = 20  // maximum number of lines that are kept
	noiseWidth = 200 // maximum number of bytes that are kept of each line

	noiseLooked = 4 << 10 // number of bytes of each line that are searched for secrets
)

// add stores one line, or the part of a line before the marker.
func (n *noise) add(line []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bytes += len(line)
	raw := bytes.TrimRight(line, "\r\n")
	if len(raw) > 0 && len(n.lines) < noiseLines {
		shown := secret.Hide(string(raw[:min(len(raw), noiseLooked)])) // half a token would not be recognised as a token
		n.lines = append(n.lines, text.Escape(shown[:min(len(shown), noiseWidth)]))
	}
	if n.bytes > maxNoise {
		return &tooMuch{fmt.Sprintf("%d KiB that the agent did not write", maxNoise>>10)}
	}
	return nil
}

// kept returns the lines that were stored so far.
func (n *noise) kept() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.lines...)
}
