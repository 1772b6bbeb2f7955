// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// numbered returns the lines of a log by their numbers.
func numbered(t *testing.T, in io.Reader) map[int][]string {
	t.Helper()
	lines := map[int][]string{}
	r := newReader(in)
	for {
		l, err := r.read()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines[l.number] = append(lines[l.number], string(l.text))
	}
}

func TestLines(t *testing.T) {
	const bar = " 45%|████▌     | 45/100 [00:10<00:12,  4.50it/s, loss=2.3]"
	for _, test := range []struct {
		name, log string
		want      map[int][]string
	}{
		{"empty lines count", "a\n\n\r\nb\r\n", map[int][]string{1: {"a"}, 4: {"b"}}},
		{"no end", "a\nb", map[int][]string{1: {"a"}, 2: {"b"}}},
		{"colours", "\x1b[36m(Worker pid=1)\x1b[0m \x1b[1;31mboom\x1b(B\x1b[m\n", map[int][]string{1: {"(Worker pid=1) boom"}}},
		{"a title and a link", "\x1b]0;train\x07a \x1b]8;id=1;file://w1/x\x1b\\b\x1b]8;;\x1b\\\n", map[int][]string{1: {"a b"}}},
		{"a cursor", "\x1b[?25l\x1b[2K\x1b7a\x1b8\x1b[1A\n", map[int][]string{1: {"a"}}},
		{"a bar alone", "Loading:" + bar + "\n", map[int][]string{1: {"Loading:" + bar}}},
		{"a bar overwrites itself", "\r" + bar + "\r" + bar + "\nboom\n", map[int][]string{1: {bar, bar}, 2: {"boom"}}},
		{"a message behind a bar", "Epoch 1:" + bar + "RuntimeError: boom\n", map[int][]string{1: {"RuntimeError: boom"}}},
		{"a message behind a bar behind a prefix", "w1:" + bar + "RuntimeError: boom\n", map[int][]string{1: {"w1: RuntimeError: boom"}}},
		{"bytes and rates", "model: 100%|##########| 4.8G/4.98G [01:02<00:00, 80MB/s]boom\n", map[int][]string{1: {"boom"}}},
		{"a torn bar", " 45%|████ boom | [Errno 111] Connection refused\n", map[int][]string{1: {" 45%|████ boom | [Errno 111] Connection refused"}}},
		{"a prefix holds for all of its line", "[rank3]:" + bar + "\r" + bar + "\rRuntimeError: boom\rw2: x\n", map[int][]string{1: {"[rank3]:" + bar, bar, "[rank3]: RuntimeError: boom", "w2: x"}}},
		{"no prefix, none given", "50 %\rdone\n", map[int][]string{1: {"50 %", "done"}}},
		{"the next line is its own", "w1: a\rb\nc\rd\n", map[int][]string{1: {"w1: a", "w1: b"}, 2: {"c", "d"}}},
		{"no text", "\x00\x00\x00a\xffb\xc3\n", map[int][]string{1: {"a\ufffdb\ufffd"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, in := range map[string]io.Reader{"at once": strings.NewReader(test.log), "by bytes": iotest.OneByteReader(strings.NewReader(test.log))} {
				if diff := cmp.Diff(test.want, numbered(t, in)); diff != "" {
					t.Error(name, diff)
				}
			}
		})
	}
}

// TestLinesLong checks that a very long line is read in pieces with the same line number.
func TestLinesLong(t *testing.T) {
	got := numbered(t, strings.NewReader("a\n"+strings.Repeat("é", longest)+"\nb\n"))
	length := 0
	for _, piece := range got[2] {
		if length += len(piece); len(piece) > longest+8 || !utf8.ValidString(piece) {
			t.Errorf("a piece of %d bytes", len(piece))
		}
	}
	if len(got[2]) < 2 || length < 2*longest || len(got) != 3 || got[3][0] != "b" {
		t.Errorf("%d lines, the second in %d pieces of %d bytes", len(got), len(got[2]), length)
	}
}

func TestLinesBroken(t *testing.T) {
	r := newReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("a\nb\n"))))
	for {
		if _, err := r.read(); err != nil {
			if !errors.Is(err, iotest.ErrTimeout) {
				t.Errorf("got %v", err)
			}
			return
		}
	}
}

// TestBefore checks that recent keeps as many lines as remembered says.
func TestBefore(t *testing.T) {
	var r recent
	for n := 1; n <= 3*remembered; n++ {
		r.add(line{number: n})
		for back := range remembered {
			before, ok := r.before(back)
			if ok != (back < n) || ok && before.number != n-back {
				t.Fatalf("line %d, %d before: %v %v", n, back, before.number, ok)
			}
		}
		if _, ok := r.before(remembered); ok {
			t.Fatal("remembers more than it has room for")
		}
	}
}

// TestWhole checks which lines are joined because a terminal broke them. A line that only happens to
// be as wide as a terminal is not joined with a line that begins something new.
func TestWhole(t *testing.T) {
	wide := strings.Repeat("wide ", 16)
	for _, test := range []struct {
		name, log string
		want      []string
	}{
		{"broken", wide + "\nand more\nnext\n", []string{wide + "and more", "next"}},
		{"broken twice", wide + "\n" + wide + "\nend\n", []string{wide + wide + "end"}},
		{"with CRLF", wide + "\r\nend\r\n", []string{wide + "end"}},
		{"without end", wide + "\nend", []string{wide + "end"}},
		{"a prefix", wide + "\n[rank1]: more\n", []string{wide, "[rank1]: more"}},
		{"a table", strings.Repeat("=", 80) + "\nmore\n", []string{strings.Repeat("=", 80), "more"}},
		{"a margin", wide + "\n    more\n", []string{wide, "    more"}},
		{"an empty line", wide + "\n\nmore\n", []string{wide, "more"}},
		{"a wider line before", wide + "wide\n" + wide + "\nmore\n", []string{wide + "wide", wide, "more"}},
		{"a wider line after", wide + "\n" + wide + "wide\n", []string{wide, wide + "wide"}},
		{"narrow", "narrow\nmore\n", []string{"narrow", "more"}},
	} {
		r, got := newReader(strings.NewReader(test.log)), []string(nil)
		for {
			l, err := r.read()
			if err != nil {
				break
			}
			got = append(got, string(l.text))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestTornEnds checks that letters that are missing at the start or the end of a line do not matter, and
// that numbers are not completed.
func TestTornEnds(t *testing.T) {
	for log, want := range map[string]string{
		"here are not enough slots available in the system to satisfy the 16": "hostfile-invalid",
		"are not enough slots available in the system":                        "",
		"ibv_reg_mr failed: Cannot allocate m":                                "memlock",
		"pdsh@w1: w3: ssh exited with exit code 1":                            "",
		"NET/OFI Selected Provider is efa":                                    "",
	} {
		if got := short(signatures(t).Explain([]Source{read("log", log+"\n")}).Causes); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}
