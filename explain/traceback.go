// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// tracebacks follows the exceptions of programs, several at a time where ranks
// write into one log: each line of one begins as its first line does.
type tracebacks struct {
	open []traceback
}

type traceback struct {
	writer
	muted bool // Python ignores the exception
	lines int
	head  *event // the alarm of its first line, for where its exception never comes
}

// writer is who writes lines that belong together.
type writer struct {
	prefix []byte // of each of its lines
	timed  bool   // the prefix tells the time, so that it is another one on each line
	who    speaker
}

func writerBehind(prefix []byte) writer {
	_, who := peel(string(prefix) + "x")
	return writer{bytes.Clone(prefix), clock(append(slices.Clip(prefix), "   "...)), who}
}

// rest is what stands behind the prefix, if the line is of the same writer.
func (w writer) rest(text []byte) (rest []byte, ours bool) {
	if !w.timed {
		return bytes.CutPrefix(text, w.prefix)
	}
	message, who := peel(string(text[:min(len(text), longestPrefix+widest)]))
	return []byte(message), who == w.who
}

const (
	// deepest is the longest traceback that is waited for.
	deepest = 400
	// longestPrefix is how much may stand before each line of one.
	longestPrefix = 120
	// mostOpen is how many are followed at once.
	mostOpen = 64
)

var (
	tracebackHead = []byte("Traceback (most recent call last)")
	ignored       = []byte("Exception ignored ") // by Python, in destructors
	// chained stands between an exception and the one that came of it, which is the
	// one that ends a program.
	chained = [][]byte{[]byte("During handling of the above exception"), []byte("The above exception was the direct cause")}
	// exception is how a traceback ends. A line of another writer in between, such as
	// "INFO:root:loading", is none: classes have capitals, and those without a module
	// are named for what they are.
	exception = regexp.MustCompile(`^(?:(?:[A-Za-z_]\w*\.)+[A-Z_]\w*[a-z]\w*|Exception|[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Timeout|Failure))(?::|$)`)
)

// loose is an exception of which only the last line is there, as excerpts and
// launchers show them.
var loose = regexp.MustCompile(`^(?:[A-Za-z_]\w*\.)*(?:Exception|[A-Z]\w*(?:Error|Exception)): \S`)

// looseIn is the exception that a line tells by itself.
func looseIn(text []byte) string {
	if !bytes.Contains(text, []byte("Error: ")) && !bytes.Contains(text, []byte("Exception: ")) {
		return ""
	}
	if message, _ := peel(string(text[:min(len(text), longestPrefix+widest)])); loose.MatchString(message) {
		return evidence(message, 0)
	}
	return ""
}

// take returns the exception that a line ends a traceback with, or tells by itself.
func (t *tracebacks) take(r *recent, text []byte) string {
	if at := bytes.Index(text, tracebackHead); at >= 0 {
		before, ok := r.before(1)
		t.begin(text[:at], ok && bytes.Contains(before.text, ignored))
		return ""
	}
	for i := range t.open {
		o := &t.open[i]
		o.lines++
		if rest, ours := o.rest(text); ours && !margin(rest) && exception.Match(rest) {
			muted := o.muted
			if t.open = slices.Delete(t.open, i, i+1); muted {
				return ""
			}
			return evidence(string(rest), 0)
		}
	}
	t.open = slices.DeleteFunc(t.open, func(o traceback) bool { return o.lines > deepest })
	return looseIn(text)
}

// begin follows a traceback whose lines begin with a prefix.
func (t *tracebacks) begin(prefix []byte, muted bool) {
	prefix, _, _ = bytes.Cut(prefix, []byte("╭")) // rich draws a frame around it
	if len(prefix) >= longestPrefix {
		return
	}
	o := traceback{writer: writerBehind(prefix), muted: muted}
	t.open = slices.DeleteFunc(t.open, func(other traceback) bool {
		return bytes.Equal(other.prefix, o.prefix) || o.timed && other.timed && other.who == o.who
	})
	if len(t.open) < mostOpen {
		t.open = append(t.open, o)
	}
}

// has takes an alarm that is no message of its own: the first line of a traceback, whose
// exception tells more, or a frame and the source it quotes, which may well speak of failures.
func (t *tracebacks) has(text []byte, alarm event) bool {
	if bytes.Contains(text, tracebackHead) {
		if n := len(t.open); n > 0 && !t.open[n-1].muted {
			t.open[n-1].head = &alarm
		}
		return true
	}
	return t.frame(text)
}

// frame is whether a line is a frame of a traceback, or the source that it quotes.
func (t *tracebacks) frame(text []byte) bool {
	return slices.ContainsFunc(t.open, func(o traceback) bool {
		rest, ours := o.rest(text)
		return ours && bytes.HasPrefix(rest, []byte("  "))
	})
}

// cut are the alarms of the tracebacks that a log ends in.
func (t *tracebacks) cut() (alarms []event) {
	for _, o := range t.open {
		if o.head != nil {
			alarms = append(alarms, *o.head)
		}
	}
	return alarms
}

// chains is whether a line says that the exception before it led to another.
func chains(text []byte) bool {
	return slices.ContainsFunc(chained, func(words []byte) bool { return bytes.Contains(text, words) })
}

// told is what an exception goes on to say after its first line: which keys are missing, what is
// to be done about it. Python puts no mark at its end, so that it is taken to end where its writer
// begins with something else.
type told struct {
	writer     // where its prefix tells the time, a line without margin is another message
	first  int // line of the exception
	last   int // line that was told last
	lines  []string
}

const (
	// mostTold is how many lines are kept of one exception, and toldWithin over how many of the
	// log they may be spread by what other ranks write.
	mostTold   = 12
	toldWithin = 64
	// mostTelling is how many exceptions of a log are followed at once, and mostHeard how many
	// messages of all logs may be known before no more are: of those nobody is shown the last ones.
	mostTelling = 16
	mostHeard   = 1000
)

// another is how a writer begins with something else: the frames of C++ behind c10::Error, and
// what launchers rule their tables with.
var another = regexp.MustCompile(`^(?:frame #\d+: |Exception raised from |[^\pL\pN]*$)|%\|`)

// tells follows what an exception that ends in this line goes on to say.
func (m *matcher) tells(l line) *told {
	if len(m.telling) >= mostTelling || len(m.seen.occurrences) >= mostHeard {
		return nil
	}
	t := &told{writer: writerBehind(decoration(l.text)), first: l.number, last: l.number}
	m.telling = append(m.telling, t)
	return t
}

// listen gives a line to the exceptions that may go on in it.
func (m *matcher) listen(l line) {
	m.telling = slices.DeleteFunc(m.telling, func(t *told) bool { return !t.goesOn(l) })
}

// goesOn is whether more may come after this line.
func (t *told) goesOn(l line) bool {
	if l.number > t.first+toldWithin {
		return false
	}
	rest, ours := t.rest(l.text)
	switch {
	case !ours:
		return true // another rank writes in between
	case len(t.prefix) == 0 && l.number > t.last+1: // an empty line was there
		return false
	case t.timed && !margin(rest), len(decoration(rest)) > 0, another.Match(rest), exception.Match(rest), loose.Match(rest), bytes.Contains(rest, tracebackHead), chains(rest):
		return false
	}
	t.last = l.number
	t.lines = append(t.lines, evidence(strings.ToValidUTF8(string(rest), ""), 0))
	return len(t.lines) < mostTold
}

func margin(text []byte) bool { return len(text) > 0 && (text[0] == ' ' || text[0] == '\t') }
