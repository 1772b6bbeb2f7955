// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", maxTotal/4)
	for name, c := range map[string]struct {
		in    string
		lines []string
		noise []string
		err   string
	}{
		"empty":           {"", nil, nil, "EOF"},
		"ours":            {"@@preflight a\n@@preflight b c\r\n", []string{"a", "b c"}, nil, "EOF"},
		"noise around":    {"motd\n\n@@preflight a\nbye", []string{"a"}, []string{"motd", "bye"}, "EOF"},
		"noise before":    {"> @@preflight a\n", []string{"a"}, []string{"> "}, "EOF"},
		"marker within":   {`@@preflight {"t":"@@preflight x"}` + "\n", []string{`{"t":"@@preflight x"}`}, nil, "EOF"},
		"escapes":         {"\x1b]0;\a\xff\u202e\"\n", nil, []string{`\x1b]0;\x07�\u202e"`}, "EOF"},
		"cut":             {"@@preflight a\n@@preflight b", []string{"a"}, nil, "unexpected EOF"},
		"cut marker":      {"@@prefl", nil, []string{"@@prefl"}, "EOF"},
		"long line":       {"@@preflight a\n@@preflight " + long + "\n@@preflight b\n", []string{"a"}, nil, "sent more than 1 MiB in one line"},
		"long and cut":    {"@@preflight " + long, nil, nil, "sent more than 1 MiB in one line"},
		"largest line":    {"@@preflight " + long[:maxLine-len(Marker)-1] + "\n", []string{long[:maxLine-len(Marker)-1]}, nil, "EOF"},
		"much in all":     {strings.Repeat("@@preflight "+long[:maxLine/2]+"\n", 16), slicesRepeat(long[:maxLine/2], 15), nil, "sent more than 8 MiB"},
		"long noise":      {long + "\n", nil, []string{long[:noiseWidth]}, "sent more than 64 KiB that the agent did not write"},
		"much noise":      {strings.Repeat("prose\n", maxNoise/6+1), nil, slicesRepeat("prose", noiseLines), "sent more than 64 KiB that the agent did not write"},
		"tolerable noise": {strings.Repeat("prose\n", maxNoise/6) + "@@preflight a\n", []string{"a"}, slicesRepeat("prose", noiseLines), "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLineReader(strings.NewReader(c.in))
			var got []string
			var err error
			for {
				var line []byte
				if line, err = r.next(); err != nil {
					break
				}
				got = append(got, string(line))
			}
			if err.Error() != c.err {
				t.Errorf("ended with %v, want %s", err, c.err)
			}
			if !cmp.Equal(got, c.lines) {
				t.Errorf("got %d lines %.200q, want %d %.200q", len(got), got, len(c.lines), c.lines)
			}
			if diff := cmp.Diff(c.noise, r.noise.kept()); diff != "" {
				t.Errorf("noise (-want +got):\n%s", diff)
			}
		})
	}
}

func slicesRepeat(s string, n int) []string {
	return strings.Split(strings.TrimSuffix(strings.Repeat(s+"\n", n), "\n"), "\n")
}

// FuzzAgentLines lets a hostile agent send anything. A part that reaches a caller must be an answer
// to the caller's own request, from the caller's own node, and limited in size.
func FuzzAgentLines(f *testing.F) {
	f.Add([]byte(`@@preflight {"node":"w1","id":1,"part":"p"}` + "\t" + `{"a":[1]}` + "\n" + `@@preflight {"node":"w1","id":1,"done":true}` + "\n"))
	f.Add([]byte("noise@@preflight {\"node\":\"w2\",\"id\":1}\n"))
	f.Add([]byte(`@@preflight {"node":"w1","id":18446744073709551615,"done":true,"error":"` + "\u202e" + `"}` + "\n"))
	f.Add([]byte("@@preflight @@preflight [[[[\n\x00\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &Agent{
			command: &command{host: "w1", stdout: &lineReader{in: bufio.NewReaderSize(bytes.NewReader(data), 16), noise: &noise{}}},
			calls:   map[uint64]*call{1: {parts: make(chan answer, len(data)), abandoned: make(chan struct{})}},
			last:    1,
			quit:    make(chan struct{}),
		}
		e := &ending{host: "w1", hello: true, acknowledged: true}
		var err error
		for err == nil {
			var line []byte
			if line, err = a.command.stdout.next(); err == nil {
				err = a.dispatch(line, e)
			}
		}
		close(a.calls[1].parts)
		for got := range a.calls[1].parts {
			if got.Node != "w1" || got.ID != 1 || len(got.body) > len(data) {
				t.Errorf("handed on %+v", got)
			}
		}
		var failure *Error
		if errors.As(err, &failure) {
			// Invalid UTF-8 becomes U+FFFD, which a terminal displays harmlessly.
			words := failure.Error() + failure.Detail["text"]
			if !utf8.ValidString(words) || strings.ContainsFunc(words, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("unescaped: %q", words)
			}
		}
	})
}
