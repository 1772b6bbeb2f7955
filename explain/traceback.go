// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"slices"
	"strings"

	"preflight/internal/literal"
	"preflight/internal/logtext"
)

// tracebacks follows the exceptions of programs. If several ranks write into one log, it follows
// several exceptions at once. All lines of a traceback begin with the same prefix as its first
// line.
type tracebacks struct {
	open []traceback
}

type traceback struct {
	writer
	muted    bool // Python ignores this exception
	lines    int
	launcher string // the launcher whose own frames the traceback has, "" for a program
	head     *event // alarm of the first line, reported if the exception never comes
}

// writer identifies the writer of lines that belong together.
type writer struct {
	prefix []byte // prefix of each line
	timed  bool   // the prefix contains the time, so the prefix changes from line to line
	who    speaker
}

func writerBehind(prefix []byte) writer {
	if len(prefix) == 0 {
		return writer{}
	}
	_, who := peel(string(prefix) + "x")
	return writer{bytes.Clone(prefix), logtext.HasTime(append(slices.Clip(prefix), "   "...)), who}
}

// rest returns the text after the prefix, and whether the line is from this writer.
func (w writer) rest(text []byte) (rest []byte, ours bool) {
	if !w.timed {
		return bytes.CutPrefix(text, w.prefix)
	}
	message, who := peel(string(text[:min(len(text), longestPrefix+widest)]))
	return []byte(message), who == w.who
}

const (
	// deepest is the maximum number of lines of a traceback.
	deepest = 400
	// longestPrefix is the maximum length of the text before each line of a traceback.
	longestPrefix = 120
	// mostOpen is the maximum number of tracebacks that are followed at once.
	mostOpen = 64
)

var (
	tracebackHead = []byte("Traceback (most recent call last)")
	ignored       = []byte("Exception ignored ") // printed by Python for exceptions in destructors
	// chained lists the lines that Python prints between an exception and the exception that
	// followed from it. The following exception ends the program.
	chained = [][]byte{[]byte("During handling of the above exception"), []byte("The above exception was the direct cause")}
	// class matches what comes before the colon on the last line of a traceback. It does not match
	// lines of other writers in between, such as "INFO:root:loading". It relies on the capitals in class names, and on the
	// typical last word of class names without a module.
	class = literal.MustSet(`^(?:(?:[A-Za-z_]\w*\.)+[A-Z_]\w*[a-z]\w*|Exception|[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Timeout|Failure))$`)
)

// exception reports whether a line is the last line of a traceback.
func exception(text []byte) bool {
	name, _, _ := bytes.Cut(text, []byte(":"))
	return len(name) > 0 && bytes.IndexByte(name, ' ') < 0 && class.Match(string(name))
}

// loose matches the last line of an exception whose other lines are not in the log, as in excerpts
// and in launchers' reports.
var loose = literal.MustSet(`^(?:[A-Za-z_]\w*\.)*(?:Exception|[A-Z]\w*(?:Error|Exception)): \S`)

// looseIn returns the exception that a line shows without a traceback, or "" if there is none.
func looseIn(text []byte) string {
	if !bytes.Contains(text, []byte("Error: ")) && !bytes.Contains(text, []byte("Exception: ")) {
		return ""
	}
	if message := Undecorated(string(text[:min(len(text), longestPrefix+widest)])); loose.Match(message) {
		return evidence(message, 0)
	}
	return ""
}

// take returns the exception on this line, and the launcher that raised it, "" for a program. The
// exception may end a traceback or stand alone. take returns "" if there is no exception.
func (t *tracebacks) take(r *recent, text []byte) (exceptionText, launcher string) {
	if at := bytes.Index(text, tracebackHead); at >= 0 {
		before, ok := r.before(1)
		t.begin(text[:at], ok && bytes.Contains(before.text, ignored))
		return "", ""
	}
	for i := range t.open {
		o := &t.open[i]
		o.lines++
		rest, ours := o.rest(text)
		if ours && bytes.HasPrefix(rest, []byte("  File ")) {
			for name, l := range tables().Launchers {
				if l.Frame.Match(rest) {
					o.launcher = name
				}
			}
		}
		if ours && !margin(rest) && exception(rest) {
			muted, launcher := o.muted, o.launcher
			if t.open = slices.Delete(t.open, i, i+1); muted {
				return "", ""
			}
			return evidence(string(rest), 0), launcher
		}
	}
	t.open = slices.DeleteFunc(t.open, func(o traceback) bool { return o.lines > deepest })
	return looseIn(text), ""
}

// begin starts to follow a new traceback whose lines have this prefix.
func (t *tracebacks) begin(prefix []byte, muted bool) {
	prefix, _, _ = bytes.Cut(prefix, []byte("╭")) // rich draws a frame around tracebacks
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

// has reports whether an alarm belongs to a traceback. The alarm may be on the first line, whose
// exception says more. It may also be on a frame or on the source line that the frame quotes,
// because a source line may contain words such as "error".
func (t *tracebacks) has(text []byte, alarm event) bool {
	if bytes.Contains(text, tracebackHead) {
		if n := len(t.open); n > 0 && !t.open[n-1].muted {
			t.open[n-1].head = &alarm
		}
		return true
	}
	return t.frame(text)
}

// frame reports whether a line is a frame of a traceback or the source line that the frame quotes.
func (t *tracebacks) frame(text []byte) bool {
	return slices.ContainsFunc(t.open, func(o traceback) bool {
		rest, ours := o.rest(text)
		return ours && bytes.HasPrefix(rest, []byte("  "))
	})
}

// cut returns the alarms of tracebacks that are incomplete at the end of a log.
func (t *tracebacks) cut() (alarms []event) {
	for _, o := range t.open {
		if o.head != nil {
			alarms = append(alarms, *o.head)
		}
	}
	return alarms
}

// chains reports whether a line says that the previous exception led to another exception.
func chains(text []byte) bool {
	return slices.ContainsFunc(chained, func(words []byte) bool { return bytes.Contains(text, words) })
}

// furtherLines holds the lines of an exception after its first one, such as the missing keys or
// advice. Python does not mark the end, so the lines end where their writer begins something else.
type furtherLines struct {
	writer     // if its prefix contains the time, a line without indentation is another message
	first  int // line number of the exception
	last   int // number of the last line that belongs to the exception
	lines  []string
}

const (
	// mostTold is the maximum number of lines that are kept of one exception. toldWithin is the
	// maximum number of log lines over which the lines may be spread if other ranks write in
	// between.
	mostTold   = 12
	toldWithin = 64
	// mostTelling is the maximum number of exceptions that are followed at once in a log. mostHeard
	// limits the number of known messages in all logs. If there are more, no further exceptions are
	// followed, because the report does not show that many.
	mostTelling = 16
	mostHeard   = 1000
)

// another matches lines that do not belong to an exception: C++ frames after c10::Error, and the
// horizontal lines of launchers' tables.
var another = literal.MustSet(`^(?:frame #\d+: |Exception raised from |[^\pL\pN]*$)|%\|`)

// followLines begins to collect the further lines of an exception that ends on this line.
func (m *matcher) followLines(l line, prefix []byte) *furtherLines {
	if len(m.telling) >= mostTelling || len(m.seen.occurrences) >= mostHeard {
		return nil
	}
	t := &furtherLines{writer: writerBehind(prefix), first: l.number, last: l.number}
	m.telling = append(m.telling, t)
	return t
}

// extend passes a line to the exceptions that may continue on it.
func (m *matcher) extend(l line) {
	m.telling = slices.DeleteFunc(m.telling, func(t *furtherLines) bool { return !t.goesOn(l) })
}

// goesOn reports whether more lines of the exception may follow this line.
func (t *furtherLines) goesOn(l line) bool {
	if l.number > t.first+toldWithin {
		return false
	}
	rest, ours := t.rest(l.text)
	switch {
	case !ours:
		return true // another rank wrote this line
	case len(t.prefix) == 0 && l.number > t.last+1: // an empty line came in between
		return false
	case t.timed && !margin(rest), len(decoration(rest)) > 0, another.Match(string(rest)), exception(rest), loose.Match(string(rest)), bytes.Contains(rest, tracebackHead), chains(rest):
		return false
	}
	t.last = l.number
	t.lines = append(t.lines, evidence(strings.ToValidUTF8(string(rest), ""), 0))
	return len(t.lines) < mostTold
}

func margin(text []byte) bool { return len(text) > 0 && (text[0] == ' ' || text[0] == '\t') }
