// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// told is what an exception goes on to say after its first line: which keys are missing, what is
// to be done about it. Python puts no mark at its end, so that it is taken to end where its writer
// begins with something else.
type told struct {
	prefix []byte // of each line of the writer
	timed  bool   // the prefix tells the time: a line without margin is another message
	who    speaker
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
	prefix := decoration(l.text)
	_, who := peel(string(prefix) + "x")
	t := &told{prefix: bytes.Clone(prefix), who: who, timed: clock(append(slices.Clip(prefix), "   "...)), first: l.number, last: l.number}
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
	rest, ours := bytes.CutPrefix(l.text, t.prefix)
	if t.timed {
		message, who := peel(string(l.text[:min(len(l.text), longestPrefix+widest)]))
		rest, ours = []byte(message), who == t.who
	}
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
