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

	"preflight/internal/logtext"
)

const (
	// longest is the maximum number of bytes of a line that are held at once. The rest of the line
	// is treated as a separate line with the same number.
	longest = 64 << 10
	// remembered is the number of earlier lines that are kept, to find the last time stamp and to
	// join wrapped text.
	remembered = 64
)

// line is one line as a program wrote it. Text that a program overwrites with carriage returns,
// such as a progress bar, becomes several lines with the same number. A line with text of several
// programs becomes several such lines too.
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
	head    []byte // prefix of the line that has carriage returns
	heading bool   // rest belongs to the line that begins with head
	headed  int    // how many times the prefix was searched
	seams   seams
	err     error // if set, nothing more can be read
	widest  int   // width of the widest line so far, in characters
	vain    int   // how many lines of this width were not broken
	skipped int   // lines that belong to the line before
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
			r.number += 1 + r.skipped
			r.skipped, r.heading = 0, false
		}
		r.midLine = errors.Is(err, bufio.ErrBufferFull)
		if r.midLine {
			r.rest = bytes.TrimRight(piece, "\r\n")
		} else {
			r.rest = logtext.FromJSON(r.whole(bytes.TrimRight(piece, "\r\n")))
		}
	}
}

// whole returns a line with the lines into which a terminal, a pager or a form broke it. Such a line
// is exactly as wide as the terminal, no line before was wider, and the next line is not wider and
// begins in the middle of a text.
func (r *reader) whole(text []byte) []byte {
	width := utf8.RuneCount(text)
	if width < narrowest || width < r.widest {
		return text
	}
	usual := slices.Contains(widths, width) || width == r.widest
	if width > r.widest {
		r.widest, r.vain = width, 0
	}
	if r.vain++; !usual || r.vain > mostUnbroken {
		return text
	}
	text = bytes.Clone(text) // looking ahead moves the buffer
	for last := text; utf8.RuneCount(last) == width && len(text) < longest; r.skipped++ {
		most := utf8.UTFMax*width + len("\r\n")
		ahead, _ := r.in.Peek(most)
		next, _, found := bytes.Cut(ahead, []byte{'\n'})
		size := min(len(next)+1, len(ahead))
		next = bytes.TrimRight(next, "\r")
		if len(next) == 0 || !found && len(ahead) == most || utf8.RuneCount(next) > width || !continues(last, next) {
			break
		}
		text = append(text, next...)
		last = text[len(text)-len(next):]
		r.in.Discard(size)
		r.vain = 0
	}
	return text
}

// mostUnbroken is the number of lines of the greatest width after which, if none of them was broken,
// the width is taken for a coincidence.
const mostUnbroken = 100

// widths lists the usual widths of terminals and pages. Text that is broken at another width is
// recognized from its second broken line on.
var widths = []int{80, 100, 120, 132, 140, 160}

// continues reports whether text can go on in the middle of a line. A line with a prefix of its own
// begins something new, and so does a row of a table.
func continues(before, text []byte) bool {
	edge := before[len(before)-1]
	return (!margin(text) || len(text) > 1 && text[1] != ' ') && len(decoration(text)) == 0 && !bytes.Contains(text, []byte("] NCCL ")) && !(ruled(edge) && ruled(before[len(before)-2])) && edge != '|' && text[0] != '|' && text[0] != '{'
}

func ruled(c byte) bool { return bytes.IndexByte([]byte("-=+*#_~"), c) >= 0 }

// withPrefix puts the prefix of the line before text that follows a carriage return. Launchers
// write a prefix once for each line. They do not repeat the prefix when a progress bar starts over.
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

// mostHeaded limits the number of prefix searches, because a log may contain very many carriage
// returns.
const mostHeaded = 100_000

func decoration(text []byte) []byte {
	text = text[:min(len(text), prefixWithin)]
	message := Undecorated(string(text))
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
	// escapes matches the control sequences and operating system commands of ECMA-48. It also
	// matches the sequences of ECMA-35 that select character sets.
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
	for i := bytes.LastIndexByte(text, '\t'); i > 0; i-- {
		if text[i] == '\t' && text[i-1] != ' ' { // other tabs are a margin
			text[i] = ' '
		}
	}
	text = bytes.TrimLeft(text, "\x00") // NFS leaves NUL bytes when two nodes write to one file
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

// seams finds the places where ranks wrote into each other's lines. At a seam, the prefix of one
// rank follows the text of another rank. The rest of the cut text comes later in the log or never.
type seams struct {
	hosts map[string]bool // host names at the beginning of NCCL's own lines
	rest  []byte          // rest of the line after the seam
}

// mostHosts limits the number of host names that are remembered.
const mostHosts = 4096

var (
	// marks lists the prefixes of torch and of DeepSpeed's logger. Each entry has the first bytes
	// and the full pattern of a prefix.
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

// longestMark is the maximum length in bytes of a prefix in marks.
const longestMark = 32

// apart returns the line up to the first seam. The rest of the line becomes the next line, with the
// same number.
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
// prefix, and other prefixes end with other characters.
func ends(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c) || bytes.IndexByte([]byte(".!?)'\"%]}"), c) >= 0
}

// nccl returns the position where the line of another NCCL process begins. It accepts only host
// names with which other lines began, because text before the host may run into the host's name.
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
