// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"hash/maphash"
	"io"
	"runtime"
	"slices"
)

// scanned is a line and what it might say.
type scanned struct {
	line
	candidates []*pattern
	first      *pattern   // that its message says, of several the first
	broken     []*pattern // whose text begins in the line before and ends in this one
	digest     uint64     // of the text, where there are candidates: 0 is any other line
}

// said are the candidates among which the message is, from the first that it says.
func (l scanned) said() []*pattern {
	if at := slices.Index(l.candidates, l.first); at >= 0 {
		return l.candidates[at:]
	}
	return nil
}

// stretch is some lines of a log that are looked at together.
type stretch struct {
	before []byte // the last line of the stretch before
	lines  []scanned
	text   []byte
	ready  chan struct{}
}

// stretchSize is how many bytes of text are handed to a processor at once.
const stretchSize = 256 << 10

// scan reads a log and has all processors hold its lines against the index, which is
// where the time goes; take gets them in their order. It returns how many lines there were.
func (x *index) scan(in io.Reader, take func(scanned)) (lines int, err error) {
	workers := runtime.GOMAXPROCS(0)
	ordered, waiting := make(chan *stretch, workers), make(chan *stretch, workers)
	from := newReader(in)
	var failed error
	go func() {
		defer close(waiting)
		defer close(ordered)
		var last []byte
		for failed == nil {
			s := &stretch{before: last, text: make([]byte, 0, stretchSize+longest), ready: make(chan struct{})}
			if failed = s.fill(from); len(s.lines) > 0 {
				last = s.lines[len(s.lines)-1].text
			}
			ordered <- s
			waiting <- s
		}
	}()
	seed := maphash.MakeSeed()
	for range workers {
		go func() {
			known := matched{}
			for s := range waiting {
				s.look(x, seed, known)
				close(s.ready)
			}
		}()
	}
	for s := range ordered {
		<-s.ready
		for _, l := range s.lines {
			take(l)
		}
	}
	if failed == io.EOF {
		failed = nil
	}
	return from.number, failed
}

func (s *stretch) fill(lines *reader) error {
	for len(s.text) < stretchSize {
		l, err := lines.read()
		if err != nil {
			return err
		}
		from := len(s.text)
		s.text = append(s.text, l.text...)
		l.text = s.text[from:]
		s.lines = append(s.lines, scanned{line: l})
	}
	return nil
}

// mostKnown is how many lines are known again: a job says the same thing on all its
// ranks, and again.
const mostKnown = 1 << 14

// look finds what the lines might say. Known are lines that were looked at before.
func (s *stretch) look(x *index, seed maphash.Seed, known matched) {
	var candidates []*pattern // of all lines, one after the other
	var joint, buffer []byte
	before := s.before
	for i := range s.lines {
		l := &s.lines[i]
		l.broken, joint = x.broken(before, l.text, joint)
		before = l.text
		from := len(candidates)
		candidates = x.candidates(l.text, candidates)
		if l.candidates = candidates[from:len(candidates):len(candidates)]; len(l.candidates) == 0 {
			continue
		}
		l.digest = maphash.Bytes(seed, l.text)
		buffer = shape(l.text, buffer[:0])
		alike := maphash.Bytes(seed, buffer)
		if !slices.ContainsFunc(l.candidates, func(p *pattern) bool { return p.counts && p.Kind != Alarm }) {
			l.first = known.first(alike, l.candidates, l.text)
			continue
		}
		alarms := firstAlarm(l.candidates)
		l.first = known.first(l.digest, l.candidates[:alarms], l.text)
		if l.first == nil {
			l.first = known.first(alike+1, l.candidates[alarms:], l.text)
		}
	}
}

// matched are patterns by the digest of the texts that they were the first to match.
type matched map[uint64]*pattern

func (m matched) first(digest uint64, candidates []*pattern, text []byte) *pattern {
	if len(candidates) == 0 {
		return nil
	}
	first, ok := m[digest]
	if !ok {
		message, _ := peel(string(text))
		if first = firstOf(candidates, message); len(m) < mostKnown {
			m[digest] = first
		}
	}
	return first
}

// firstAlarm is where the alarms begin among candidates, behind all others.
func firstAlarm(candidates []*pattern) int {
	at := slices.IndexFunc(candidates, func(p *pattern) bool { return p.Kind == Alarm })
	if at < 0 {
		return len(candidates)
	}
	return at
}

// shape is a text whatever its numbers are, but for zero: programs say the same of one file
// after the other, and an exit with 0 is none with 1.
func shape(text, buffer []byte) []byte {
	for i, c := range text {
		if c >= '1' && c <= '9' {
			c = '9'
		}
		if c == '9' && i > 0 && digit(text[i-1]) {
			continue
		}
		buffer = append(buffer, c)
	}
	return buffer
}

func firstOf(candidates []*pattern, text string) *pattern {
	for _, p := range candidates {
		if p.in(text) {
			return p
		}
	}
	return nil
}

// around is how far from the end of a line the text may begin by which a signature
// is found.
const around = 64

// broken are the patterns whose text the end of a line has broken. The buffer is
// given back to be used again.
func (x *index) broken(before, text, buffer []byte) ([]*pattern, []byte) {
	if len(before) == 0 {
		return nil, buffer
	}
	tail, head := before[max(0, len(before)-around):], text[sharedPrefix(before, text):]
	head = head[:min(len(head), around)]
	buffer = append(append(append(buffer[:0], tail...), ' '), head...)
	found := x.across(buffer, len(tail))
	if cutsWord(before, head) {
		buffer = append(append(buffer[:0], tail...), head...)
		found = append(found, x.across(buffer, len(tail))...)
	}
	return found, buffer
}

// narrowest is the width of a terminal that cuts lines wherever they are too long for it.
const narrowest = 80

// cutsWord is whether the end of a line may be in the middle of a word, whose rest would begin
// the next one.
func cutsWord[text string | []byte](before, after text) bool {
	if len(before) < narrowest || !letter(before[len(before)-1]) {
		return false
	}
	for i := range len(after) {
		if c := after[i]; c < 'a' || c > 'z' {
			return i > 0 && c == ' '
		}
	}
	return false
}

// sharedPrefix is how much of two lines is the same decoration.
func sharedPrefix(a, b []byte) int {
	end := 0
	for i := 0; i < len(a) && i < len(b) && a[i] == b[i]; i++ {
		if i > 0 && a[i] == ' ' && bytes.IndexByte([]byte(":]|)"), a[i-1]) >= 0 {
			end = i + 1
		}
	}
	return end
}
