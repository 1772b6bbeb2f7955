// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// heard holds the parts that the callers of a node's agent must get, by request, and the noise that
// is kept.
type heard struct {
	parts map[uint64][]string
	noise []string
	err   string // why reading ends: "" for a clean end
}

// modelled is a node that sends lines, with a model of the expected result. The result must not
// depend on the noise between the lines, or on how the stream is split.
type modelled struct {
	said  bytes.Buffer
	node  *server
	want  heard
	gone  map[uint64]bool // the request is done, or its caller has given up
	loose int             // bytes of noise that have no newline yet
	noisy int
	short bool   // the program of the test is short
	last  string // end of the noise that has no newline yet
}

// The requests of the model. The last request is the test's own: its parts say when a caller gives
// up.
const (
	modelCalls = 3
	givesUp    = modelCalls + 1
	longLine   = 255 // long lines are slow, so only a short program contains any
	shortOnes  = 24
)

func newModelled() *modelled {
	m := &modelled{want: heard{parts: map[uint64][]string{}}, gone: map[uint64]bool{}}
	m.node = &server{out: &m.said, node: "w1", end: func(error) {}}
	return m
}

// do performs one step of the program.
func (m *modelled) do(op, size byte) {
	id := uint64(size)%modelCalls + 1
	if op == longLine && m.short {
		m.long(answer{ID: id, Part: "long"}, maxLine+int(size))
		return
	}
	switch op % 6 {
	case 0:
		m.part(answer{ID: id, Part: fmt.Sprintf("p%d", op), body: bytes.Repeat([]byte{'1'}, 1+8*int(size))})
	case 1:
		m.part(answer{ID: id, Done: true, Err: strings.Repeat("x", int(size)%3)})
		m.gone[id] = true
	case 2:
		m.noise(strings.Repeat(string(rune('a'+op%26)), int(size)*16), true)
	case 3:
		m.noise(strings.Repeat("@", int(size)%20)+"@@preflight", false)
	case 4:
		m.part(answer{ID: givesUp, Part: fmt.Sprint(id)})
		m.gone[id] = true
	case 5:
		m.part(answer{})
	}
}

// part sends a line of the agent, after any unfinished noise.
func (m *modelled) part(a answer) {
	if err := m.node.send(a); err != nil {
		panic(err)
	}
	a.Node = "w1"
	m.take(a)
}

// long sends a line of the agent that is too long.
func (m *modelled) long(a answer, size int) {
	fmt.Fprintf(&m.said, `%s{"node":"w1","id":%d,"part":%q}`+"\t%s\n", Marker, a.ID, a.Part, strings.Repeat("b", size))
	m.settle()
	m.want.err = cmp.Or(m.want.err, "sent more than 1 MiB in one line")
}

func (m *modelled) take(a answer) {
	m.settle()
	if m.want.err == "" && a.ID != 0 && a.ID != givesUp && !m.gone[a.ID] {
		m.want.parts[a.ID] = append(m.want.parts[a.ID], spelled(a))
	}
}

// noise sends text that is not the agent's, with or without a newline.
func (m *modelled) noise(text string, ends bool) {
	m.said.WriteString(text)
	m.loose, m.last = m.loose+len(text), m.last+text
	if ends {
		m.said.WriteByte('\n')
		m.loose++
		m.settle()
	}
}

// settle compares the amount that was sent so far with the limits.
func (m *modelled) settle() {
	if m.want.err != "" {
		return
	}
	m.noisy += m.loose
	if m.last != "" && len(m.want.noise) < noiseLines {
		m.want.noise = append(m.want.noise, m.last[:min(len(m.last), noiseWidth)])
	}
	m.loose, m.last = 0, ""
	switch {
	case m.said.Len() > maxTotal:
		m.want.err = "sent more than 8 MiB"
	case m.noisy > maxNoise:
		m.want.err = "sent more than 64 KiB that the agent did not write"
	}
}

func spelled(a answer) string {
	return fmt.Sprintf("%d %s done=%t %q %d", a.ID, a.Part, a.Done, a.Err, len(a.body))
}

// hear reads everything that a node sent, in pieces of various sizes, as an agent's callers do.
func hear(data io.Reader, size int) heard {
	got := heard{parts: map[uint64][]string{}}
	a := &Agent{
		command: &command{host: "w1", stdout: &lineReader{in: bufio.NewReaderSize(data, size), noise: &noise{}}},
		calls:   map[uint64]*call{}, last: givesUp, quit: make(chan struct{}),
	}
	for id := uint64(1); id <= givesUp; id++ {
		a.calls[id] = &call{parts: make(chan answer, 1), abandoned: make(chan struct{})}
	}
	calls := map[uint64]*call{}
	for id, c := range a.calls {
		calls[id] = c
	}
	e := &ending{host: "w1", hello: true, acknowledged: true}
	for {
		line, err := a.command.stdout.next()
		if err == nil {
			err = a.dispatch(line, e)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				got.err = err.Error()
			}
			got.noise = a.command.stdout.noise.kept()
			return got
		}
		for id, c := range calls {
			select {
			case p := <-c.parts:
				if p.ID != id || p.body != nil && !json.Valid(p.body) {
					got.err = "an answer to another request: " + spelled(p)
				}
				if id == givesUp {
					var whose uint64
					fmt.Sscan(p.Part, &whose)
					a.unregister(whose)
					continue
				}
				got.parts[id] = append(got.parts[id], spelled(p))
				if p.Done {
					a.unregister(id)
				}
			default:
			}
		}
	}
}

// FuzzWire makes a node follow a program. The node answers three requests in parts, between noise
// with and without newline, heartbeats, lines that are too long and callers that give up. It also
// exceeds every limit. The callers must get what the model predicts, however the stream is split.
func FuzzWire(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 2, 5, 3, 9, 0, 1, 5, 0, 1, 1, 0, 1}, uint16(16), uint16(0))
	f.Add([]byte{3, 200, 4, 2, 0, 2, longLine, 1, 0, 1, 1, 3}, uint16(64), uint16(3))
	f.Add(bytes.Repeat([]byte{2, 250}, 20), uint16(1000), uint16(0))
	f.Add(append(bytes.Repeat([]byte{2, 250}, 16), 2, 94, 0, 1, 2, 1, 0, 2), uint16(64), uint16(0)) // just above the noise limit
	f.Add(bytes.Repeat([]byte{longLine, 1}, 9), uint16(4096), uint16(0))
	f.Fuzz(func(t *testing.T, program []byte, size, cut uint16) {
		m := newModelled()
		m.short = len(program) <= shortOnes
		for step := range slices.Chunk(program[:min(len(program), 200)], 2) {
			if len(step) == 2 && m.said.Len() <= maxTotal {
				m.do(step[0], step[1])
			}
		}
		if m.loose > 0 {
			m.noise("", true)
		}
		data := m.said.Bytes()
		got := hear(bytes.NewReader(data), max(16, int(size)))
		if got.err != m.want.err || !slices.Equal(got.noise, m.want.noise) {
			t.Errorf("it ends with %q and %q, want %q and %q", got.err, got.noise, m.want.err, m.want.noise)
		}
		for id := range uint64(modelCalls + 1) {
			if !slices.Equal(got.parts[id], m.want.parts[id]) {
				t.Errorf("request %d: %q\nwant %q", id, got.parts[id], m.want.parts[id])
			}
		}
		// A truncated stream gives fewer parts, and no other parts.
		short := hear(bytes.NewReader(data[:max(0, len(data)-int(cut))]), max(16, int(size)))
		for id, parts := range short.parts {
			if len(parts) > len(got.parts[id]) || !slices.Equal(parts, got.parts[id][:len(parts)]) {
				t.Errorf("cut by %d, request %d: %q of %q", cut, id, parts, got.parts[id])
			}
		}
	})
}
