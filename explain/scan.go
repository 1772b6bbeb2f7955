// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"hash/maphash"
	"io"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"preflight/internal/literal"
)

// scanned is a line and the patterns that it may match.
type scanned struct {
	line
	candidates []*pattern
	first      *pattern   // the first pattern that the line matches
	broken     []*pattern // patterns whose literal text begins on the previous line and ends on this line
	digest     uint64     // digest of the text if there are candidates, otherwise 0
}

// possible returns the candidates from the first matching candidate on, or nil if none matches.
func (l scanned) possible() []*pattern {
	if at := slices.Index(l.candidates, l.first); at >= 0 {
		return l.candidates[at:]
	}
	return nil
}

// stretch is a group of lines that one goroutine examines together.
type stretch struct {
	before []byte // last line of the previous stretch
	lines  []scanned
	text   []byte
	ready  chan struct{}
}

// stretchSize is the number of bytes of text that a goroutine gets at once.
const stretchSize = 256 << 10

// scan reads a log and passes its lines to take in order. It uses all processors to look up the
// lines in the index, because this takes most of the time. scan returns the number of lines.
func (x *index) scan(in io.Reader, take func(scanned)) (lines int, err error) {
	workers := runtime.GOMAXPROCS(0)
	ordered, waiting := make(chan *stretch, workers), make(chan *stretch, workers)
	from := newReader(in)
	var failed error
	go func() {
		defer close(waiting)
		defer close(ordered)
		var last []byte
		usual := 0
		for failed == nil {
			s := &stretch{before: last, lines: make([]scanned, 0, usual), text: make([]byte, 0, stretchSize+longest), ready: make(chan struct{})}
			failed = s.fill(from)
			if n := len(s.lines); n > 0 {
				last, usual = s.lines[n-1].text, n+n/8
			}
			ordered <- s
			waiting <- s
		}
	}()
	seed := maphash.MakeSeed()
	for range workers {
		go func() {
			known, same := matched{}, map[uint64]scanned{}
			for s := range waiting {
				s.look(x, seed, known, same)
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

// mostKnown is the maximum number of lines that are remembered to recognize repetitions. All ranks
// of a job log the same lines repeatedly.
const mostKnown = 1 << 14

// look finds the patterns that the lines may match. known caches the results by text, and same those of
// lines that repeat exactly.
func (s *stretch) look(x *index, seed maphash.Seed, known matched, same map[uint64]scanned) {
	var candidates []*pattern // candidates of all lines, one line after the other
	var torn []*pattern
	var joint, buffer []byte
	before := s.before
	for i := range s.lines {
		l := &s.lines[i]
		l.broken, joint = x.broken(before, l.text, joint)
		before = l.text
		digest := maphash.Bytes(seed, l.text)
		if one, ok := same[digest]; ok {
			l.candidates, l.first, l.digest = one.candidates, one.first, one.digest
			continue
		}
		from := len(candidates)
		candidates, torn = x.candidates(l.text, candidates, torn[:0])
		l.candidates = candidates[from:len(candidates):len(candidates)]
		if len(l.candidates)+len(torn) == 0 {
			continue
		}
		buffer = shape(l.text, buffer[:0])
		alike := maphash.Bytes(seed, buffer)
		if len(l.candidates) > 0 {
			l.digest = digest
			if !slices.ContainsFunc(l.candidates, func(p *pattern) bool { return p.counts && p.Kind != Alarm }) {
				l.first = known.first(alike, l.candidates, l.text)
			} else {
				alarms := firstAlarm(l.candidates)
				l.first = known.first(l.digest, l.candidates[:alarms], l.text)
				if l.first == nil {
					l.first = known.first(alike+1, l.candidates[alarms:], l.text)
				}
			}
		}
		// A log with this many different lines was not copied by hand.
		if _, vain := known[alike+2]; !vain && len(known) < mostKnown && (l.first == nil || l.first.Kind == Alarm || l.first.Kind == Summary) && !l.mend(append(torn, l.candidates...)) {
			known[alike+2] = nil
		}
		if len(same) < mostKnown && len(l.text) > 0 && &l.text[0] == &before[0] { // not mended
			same[digest] = scanned{candidates: slices.Clone(l.candidates), first: l.first, digest: l.digest}
		}
	}
}

// mostTorn is the number of bytes that may be missing at the start or the end of a line, as when
// text is copied by hand.
const mostTorn = 5

// mend completes a line of which the first or last letters are missing, and reports whether the line
// then matches.
func (l *scanned) mend(candidates []*pattern) bool {
	slices.SortFunc(candidates, inCatalogue)
	for _, p := range candidates {
		if p == l.first {
			break // what follows is more general
		}
		for _, whole := range p.mended(string(l.text)) {
			if message := Undecorated(whole); p.matches(message) {
				l.text, l.first, l.candidates, l.digest = []byte(whole), p, []*pattern{p}, 0
				return true
			}
		}
	}
	return false
}

// enough reports whether so many bytes of a literal show what was there.
func enough(literal string, kept int) bool {
	return kept >= 3 || kept >= 0 && strings.IndexFunc(literal, unicode.IsLetter) < 0
}

// mended returns the text with the missing letters of the pattern's start or end.
func (p *pattern) mended(text string) (whole []string) {
	if p.Kind == Alarm || p.Kind == Success {
		return nil
	}
	exception := loose.Match(text) // nothing is missing before an exception
	for missing := 1; missing <= mostTorn; missing++ {
		for _, end := range p.says.Ends {
			// A number is not completed: it has another meaning.
			if keep := len(end) - missing; enough(end, keep) && !digit(end[keep]) && strings.HasSuffix(text, end[:keep]) {
				whole = append(whole, text+end[keep:])
			}
		}
		for _, start := range p.says.Starts {
			if !exception && len(start)-missing >= 3 && strings.HasPrefix(text, start[missing:]) {
				whole = append(whole, start[:missing]+text)
			}
		}
	}
	return whole
}

// matched maps the digest of a text to the first pattern that it matches.
type matched map[uint64]*pattern

func (m matched) first(digest uint64, candidates []*pattern, text []byte) *pattern {
	if len(candidates) == 0 {
		return nil
	}
	first, ok := m[digest]
	if !ok {
		first = firstOf(candidates, Undecorated(string(text)))
		if len(m) < mostKnown {
			m[digest] = first
		}
	}
	return first
}

// firstAlarm returns the index of the first alarm. Alarms come after all other candidates.
func firstAlarm(candidates []*pattern) int {
	at := slices.IndexFunc(candidates, func(p *pattern) bool { return p.Kind == Alarm })
	if at < 0 {
		return len(candidates)
	}
	return at
}

// shape replaces the numbers in a text, because programs repeat a message with different numbers.
// It keeps zeros, because exit code 0 and exit code 1 have different meanings.
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
		if p.matches(text) {
			return p
		}
	}
	return nil
}

// around is how many bytes before the end of a line the literal text of a signature may begin if it
// continues on the next line.
const around = 64

// broken returns the patterns whose literal text begins on one line and ends on the next line. It
// also returns the buffer for reuse.
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

// narrowest is the smallest width of a terminal that breaks long lines in the middle of words.
const narrowest = 80

// cutsWord reports whether the end of a line may be in the middle of a word that continues on the
// next line.
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

// sharedPrefix returns the length of the common prefix (decoration) of two lines.
func sharedPrefix(a, b []byte) int {
	end := 0
	for i := 0; i < len(a) && i < len(b) && a[i] == b[i]; i++ {
		if i > 0 && a[i] == ' ' && bytes.IndexByte([]byte(":]|)"), a[i-1]) >= 0 {
			end = i + 1
		}
	}
	return end
}

// index finds the patterns that a line may match. Every pattern has literal text without which the
// pattern cannot match. Few lines of a log contain such text, and only these lines are matched with
// expressions.
type index struct{ literal.Index[*pattern] }

// candidates appends the patterns that the text may match, in the order of the catalogue, and the
// patterns whose literal text is cut at the start or the end of the text.
func (x *index) candidates(text []byte, into, torn []*pattern) (all, cut []*pattern) {
	from := len(into)
	x.Each(text, mostTorn, func(p *pattern, start, end int) {
		if start < 0 || end > len(text) {
			torn = append(torn, p)
		} else if !slices.Contains(into[from:], p) {
			into = append(into, p)
		}
	})
	slices.SortFunc(into[from:], inCatalogue)
	return into, torn
}

func inCatalogue(a, b *pattern) int { return a.order - b.order }

// across returns the patterns whose literal text spans the byte at seam.
func (x *index) across(text []byte, seam int) (found []*pattern) {
	x.Across(text, seam, func(p *pattern) {
		if !slices.Contains(found, p) {
			found = append(found, p)
		}
	})
	return found
}
