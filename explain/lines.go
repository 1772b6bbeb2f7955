// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"unicode/utf8"
)

const (
	// longest is how much of one line is held at once; the rest is looked at as if
	// it were a line of its own with the same number.
	longest = 64 << 10
	// remembered is how many lines are kept to look back at: for the last time
	// stamp, and for text that was wrapped.
	remembered = 64
)

// line is one line as a program wrote it. What a program overwrites by carriage
// returns, as progress bars do, and what several wrote into one are lines of one number.
type line struct {
	number int
	text   []byte
}

// reader takes lines from a log.
type reader struct {
	in      *bufio.Reader
	number  int
	midLine bool   // the next piece belongs to the line before it
	rest    []byte // what follows a carriage return
	head    []byte // the prefix of a line that has carriage returns
	heading bool   // head is that of the line of rest
	headed  int    // how often that was looked at
	seams   seams
	err     error // after which nothing can be read
}

func newReader(in io.Reader) *reader {
	return &reader{in: bufio.NewReaderSize(in, longest)}
}

// read returns the next line that has text, valid until the next call, or io.EOF.
func (r *reader) read() (line, error) {
	if torn := r.seams.rest; len(torn) > 0 {
		return line{r.number, r.seams.apart(torn)}, nil
	}
	for {
		for len(r.rest) > 0 {
			var text []byte
			var more bool
			text, r.rest, more = bytes.Cut(r.rest, []byte{'\r'})
			if text = plain(text); len(text) > 0 {
				return line{r.number, r.seams.apart(r.behind(text, more))}, nil
			}
		}
		if r.err != nil {
			return line{}, r.err
		}
		piece, err := r.in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if r.err = err; len(piece) == 0 {
				continue
			}
		}
		if !r.midLine {
			r.number++
			r.heading = false
		}
		r.midLine = errors.Is(err, bufio.ErrBufferFull)
		r.rest = bytes.TrimRight(piece, "\r\n")
	}
}

// behind gives what follows a carriage return the prefix of its line: a launcher
// writes one before each line, and not again where a progress bar begins anew.
func (r *reader) behind(text []byte, more bool) []byte {
	switch {
	case r.heading && (len(r.head) == 0 || bytes.Contains(text, []byte("%|"))):
	case r.headed >= mostHeaded:
	case r.heading:
		if r.headed++; len(decoration(text)) == 0 {
			return slices.Concat(r.head, text)
		}
	case more:
		r.headed++
		r.heading, r.head = true, append(r.head[:0], decoration(text)...)
	}
	return text
}

// mostHeaded bounds the time that carriage returns can cost.
const mostHeaded = 100_000

func decoration(text []byte) []byte {
	text = text[:min(len(text), prefixWithin)]
	message, _ := peel(string(text))
	return text[:len(text)-len(message)]
}

// recent are the last lines of a log, to look back at.
type recent struct {
	lines [remembered]line
	read  int // so many in all
}

func (r *recent) add(l line) {
	r.lines[r.read%remembered] = l
	r.read++
}

// before is the line that came n lines before the last one.
func (r *recent) before(n int) (line, bool) {
	if n >= remembered || r.read-1-n < 0 {
		return line{}, false
	}
	return r.lines[(r.read-1-n)%remembered], true
}

var (
	// escapes are ECMA-48's control sequences and operating system commands, and what
	// ECMA-35 lets choose character sets with.
	escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])`)
	// bar is a progress bar as tqdm draws it. What follows it on its line was written
	// by somebody else.
	bar = regexp.MustCompile(`\d{1,3}%\|[^|]*\| *[^\s\[/]*/[^\s\[]* \[[^\]]*\]`)
)

// plain takes off what is there for terminals only, and bytes that are no text.
func plain(text []byte) []byte {
	if bytes.IndexByte(text, 0x1b) >= 0 {
		text = escapes.ReplaceAll(text, nil)
	}
	text = bytes.TrimLeft(text, "\x00") // NFS leaves those where two nodes write one file
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\ufffd"))
	}
	if bytes.Contains(text, []byte("%|")) {
		if found := bar.FindIndex(text); found != nil && found[1] < len(text) {
			text = slices.Concat(decoration(text[:found[0]]), text[found[1]:])
		}
	}
	return text
}

// seams are where ranks wrote into each other's lines: the prefix of one stands behind the text
// of another, and what was cut goes on somewhere else, if at all.
type seams struct {
	hosts map[string]bool // that NCCL's own lines began with
	rest  []byte          // of the line, from the seam on
}

// mostHosts bounds what is remembered of the names of hosts.
const mostHosts = 4096

var (
	// marks are how torch's prefix begins and that of DeepSpeed's logger, with the whole of it.
	marks = []struct {
		text   []byte
		prefix *regexp.Regexp
	}{
		{[]byte("[rank"), regexp.MustCompile(`^\[rank\d{1,6}\]:`)},
		{[]byte("[20"), regexp.MustCompile(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] \[[A-Z]`)},
	}
	ncclMark = []byte("] NCCL ")
	ncclSeam = regexp.MustCompile(`([\w.-]+):\d+:\d+ \[-?\d+\] NCCL `)
)

// longestMark is how long one of those prefixes may be.
const longestMark = 32

// apart is the line up to the first seam. The rest is the next line, of the same number.
func (s *seams) apart(text []byte) []byte {
	s.rest = nil
	at := len(text)
	for _, mark := range marks {
		for from := 1; from < at; {
			found := bytes.Index(text[from:at], mark.text)
			if found < 0 {
				break
			}
			from += found
			if ends(text[from-1]) && mark.prefix.Match(text[from:min(len(text), from+longestMark)]) {
				at = from
			}
			from++
		}
	}
	if nccl := bytes.Index(text, ncclMark); nccl >= 0 {
		at = min(at, s.nccl(text, nccl))
	}
	if at < len(text) {
		text, s.rest = text[:at], text[at:]
	}
	return text
}

// ends is whether a text may end so. Prefixes in their place stand behind others, which end otherwise.
func ends(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c) || bytes.IndexByte([]byte(".!?)'\"%]}"), c) >= 0
}

// nccl is where another process of NCCL began. Its host is known by the lines that began with
// it: what stands before may be glued to the name.
func (s *seams) nccl(text []byte, first int) int {
	if host, _, found := bytes.Cut(text[:first], []byte(":")); found && len(host) <= longestName && !s.hosts[string(host)] && len(s.hosts) < mostHosts && ncclSeam.Match(text[:min(len(text), first+len(ncclMark))]) {
		if s.hosts == nil {
			s.hosts = map[string]bool{}
		}
		s.hosts[string(host)] = true
	}
	if !bytes.Contains(text[first+len(ncclMark):], ncclMark) {
		return len(text)
	}
	for _, found := range ncclSeam.FindAllSubmatchIndex(text, 2) {
		for at := found[2]; at < found[3]; at++ {
			if at > 0 && s.hosts[string(text[at:found[3]])] {
				return at
			}
		}
	}
	return len(text)
}
