// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestPictureIsOfTheDemo tests that docs/report.svg is what make docs would write.
func TestPictureIsOfTheDemo(t *testing.T) {
	saved, err := os.Open("../../cmd/preflight/demo.json")
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	var want bytes.Buffer
	if err := draw(&want, saved, false); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../report.svg")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Fatalf("docs/report.svg is stale, make docs draws it anew (-want +got):\n%s", diff)
	}
	if !bytes.Contains(got, []byte(`<tspan class="bold red">FAIL</tspan>`)) {
		t.Error("what failed has no colour")
	}
	var line strings.Builder
	shown, decoder := []string{}, xml.NewDecoder(bytes.NewReader(got))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			line.Write(token)
		case xml.EndElement:
			if token.Name.Local == "text" {
				shown = append(shown, strings.TrimLeft(line.String(), "\n"))
				line.Reset()
			} else if token.Name.Local == "style" {
				line.Reset()
			}
		}
	}
	if len(shown) != rows || shown[3] != "FAIL  this launch will not work: 7 problems on w[1-3,5-8]" {
		t.Errorf("%d lines, the fourth is %q", len(shown), shown[3])
	}
	for _, line := range shown {
		if length := utf8.RuneCountInString(line); length > columns {
			t.Errorf("a line of %d characters: %s", length, line)
		}
	}
}

// TestRecording tests that docs/demo.svg is what make docs would write, and that README shows it on
// its first screen.
func TestRecording(t *testing.T) {
	saved, err := os.Open("../../cmd/preflight/demo.json")
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	var want bytes.Buffer
	if err := draw(&want, saved, true); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Fatalf("docs/demo.svg is stale: make docs draws it again (-want +got):\n%s", diff)
	}
	if len(got) > 100_000 || bytes.Count(got, []byte("@keyframes")) != rows {
		t.Errorf("the recording has %d bytes and %d lines that appear", len(got), bytes.Count(got, []byte("@keyframes")))
	}
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		text, err := os.ReadFile("../../" + page)
		first, _, _ := strings.Cut(string(text), "\n## ")
		if err != nil || !strings.Contains(first, "](docs/demo.svg)") {
			t.Errorf("%s does not show docs/demo.svg before its first section: %v", page, err)
		}
	}
}

func TestParts(t *testing.T) {
	for line, want := range map[string][]part{
		"plain":                                  {{"plain", nil}},
		"\x1b[1;91mFAIL\x1b[m  a \x1b[2mb\x1b[m": {{"FAIL", []string{"bold", "red"}}, {"  a ", nil}, {"b", []string{"faint"}}},
		strings.Repeat("ä", columns+1):           {{strings.Repeat("ä", columns-1) + "…", nil}},
		strings.Repeat("ä", columns):             {{strings.Repeat("ä", columns), nil}},
	} {
		if diff := cmp.Diff(want, parts(line), cmp.AllowUnexported(part{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
	}
}
