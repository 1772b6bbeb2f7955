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
