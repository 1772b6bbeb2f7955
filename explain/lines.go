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
	// longest is the number of bytes of a line that are held at once. The rest is treated as a
	// separate line with the same number.
	longest = 64 << 10
	// remembered is the number of earlier lines that are kept, to find the last time stamp and to
	// join wrapped text.
	remembered = 64
)

// line is one line as a program wrote it. Text that a program overwrites with carriage returns,
// such as a progress bar, and text of several programs in one line become several lines with the
// same number.
type line struct {
	number int
	text   []byte
}

// reader splits a log into lines.
type reader struct {
	in      *bufio.Reader
	number  int
	midLine bool   // the next piece belongs to the same line
	rest    []byte // text after a carriage return
	head    []byte // prefix of a line that has carriage returns
	heading bool   // head belongs to the line of rest
	headed  int    // how often the prefix was searched
	seams   seams
	err     error // if set, nothing more can be read
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
			if text = plainText(text); len(text) > 0 {
				return line{r.number, r.seams.apart(r.withPrefix(text, more))}, nil
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

// withPrefix puts the prefix of its line before text that follows a carriage return. Launchers
// write a prefix once per line, and not again when a progress bar starts over.
func (r *reader) withPrefix(text []byte, more bool) []byte {
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

// mostHeaded limits the time that carriage returns can cost.
const mostHeaded = 100_000

func decoration(text []byte) []byte {
	text = text[:min(len(text), prefixWithin)]
	message, _ := peel(string(text))
	return text[:len(text)-len(message)]
}

// recent holds the last lines of a log.
type recent struct {
	lines [remembered]line
	read  int // number of lines read so far
}

func (r *recent) add(l line) {
	r.lines[r.read%remembered] = l
	r.read++
}

// before returns the line n lines before the last one.
func (r *recent) before(n int) (line, bool) {
	if n >= remembered || r.read-1-n < 0 {
		return line{}, false
	}
	return r.lines[(r.read-1-n)%remembered], true
}

var (
	// escapes matches ECMA-48 control sequences and operating system commands, and the sequences of
	// ECMA-35 that select character sets.
	escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])`)
	// bar matches a progress bar as tqdm draws it. Text after it on the same line comes from
	// another writer.
	bar = regexp.MustCompile(`\d{1,3}%\|[^|]*\| *[^\s\[/]*/[^\s\[]* \[[^\]]*\]`)
)

// plainText removes terminal sequences, progress bars and bytes that are not valid text.
func plainText(text []byte) []byte {
	if bytes.IndexByte(text, 0x1b) >= 0 {
		text = escapes.ReplaceAll(text, nil)
	}
	text = bytes.TrimLeft(text, "\x00") // NFS leaves NULs when two nodes write one file
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

// seams finds the places where ranks wrote into each other's lines: the prefix of one follows the
// text of another, and the rest of the cut text comes later or never.
type seams struct {
	hosts map[string]bool // hosts with which NCCL's own lines began
	rest  []byte          // rest of the line after the seam
}

// mostHosts limits the number of host names that are remembered.
const mostHosts = 4096

var (
	// marks are the start and the full pattern of torch's prefix and of the prefix of DeepSpeed's
	// logger.
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

// longestMark is the maximum length of one of these prefixes.
const longestMark = 32

// apart returns the line up to the first seam. The rest becomes the next line, with the same
// number.
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

// ends reports whether a message may end with c. A prefix in its usual place follows another
// prefix, which ends differently.
func ends(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c) || bytes.IndexByte([]byte(".!?)'\"%]}"), c) >= 0
}

// nccl returns the position where the line of another NCCL process begins. It knows host names from
// lines that begin with them, because text before the host may be joined to its name.
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
