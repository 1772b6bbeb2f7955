package explain

import (
	"bytes"
	"slices"
	"strings"
)

// tracebacks follows the exceptions of programs, several at a time where ranks
// write into one log: each line of one begins as its first line does.
type tracebacks struct {
	open []traceback
}

type traceback struct {
	prefix []byte
	lines  int
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
)

// take returns the exception that a line ends a traceback with.
func (t *tracebacks) take(r *recent, text []byte) (exception string) {
	if at := bytes.Index(text, tracebackHead); at >= 0 {
		if before, ok := r.before(1); ok && bytes.Contains(before.text, ignored) {
			return ""
		}
		prefix, _, _ := bytes.Cut(text[:at], []byte("╭")) // rich draws a frame around it
		t.open = slices.DeleteFunc(t.open, func(o traceback) bool { return bytes.Equal(o.prefix, prefix) })
		if len(t.open) < mostOpen && len(prefix) < longestPrefix {
			t.open = append(t.open, traceback{prefix: bytes.Clone(prefix)})
		}
		return ""
	}
	for i := 0; i < len(t.open); i++ {
		o := &t.open[i]
		rest, ours := bytes.CutPrefix(text, o.prefix)
		if o.lines++; o.lines > deepest {
			t.open = slices.Delete(t.open, i, i+1)
			i--
			continue
		}
		if !ours || len(rest) == 0 || !letter(rest[0]) {
			continue
		}
		t.open = slices.Delete(t.open, i, i+1)
		if ends(rest) {
			return strings.ToValidUTF8(string(rest[:min(len(rest), widest)]), "")
		}
		return ""
	}
	return ""
}

func letter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_' }

// ends is whether a line reads as the end of a traceback: the name of an exception,
// a colon and words, or the name alone.
func ends(text []byte) bool {
	name, _, _ := bytes.Cut(text, []byte(":"))
	if len(name) == 0 || len(name) > 120 {
		return false
	}
	for _, c := range name {
		if !letter(c) && c != '.' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
