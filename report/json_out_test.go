// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"preflight/checks"
	"preflight/facts"
)

// TestJSONIsOneText checks that writing the entries one by one gives the same bytes as writing the
// whole report.
func TestJSONIsOneText(t *testing.T) {
	file, err := os.Open("../cmd/preflight/demo.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	demo, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	empty := demo
	empty.Nodes, empty.Findings = []facts.Node{}, nil
	hostile := demo
	hostile.Hostfile = "\n \"nodes\": [],\n"
	hostile.Policy = "\x7f\u009b##vso[x]<&>\u202e"
	hostile.Nodes = []facts.Node{{Name: "\"findings\": []"}, {Name: "\x7f", Address: "##[x]"}}
	changed := Changed{Schema: checks.Schema, Changes: []checks.Change{{Node: "w1", Before: []byte(`{"a": [ ]}`)}, {Node: "w2"}}}
	for name, r := range map[string]checks.Report{"demo": demo, "empty": empty, "hostile": hostile, "zero": {}} {
		t.Run(name, func(t *testing.T) { sameJSON(t, r) })
	}
	t.Run("changes", func(t *testing.T) { sameJSON(t, changed) })
}

func sameJSON[Report any](t *testing.T, r Report) {
	var got, want bytes.Buffer
	encoder := Encoder(&want)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := JSON(&got, r); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("got\n%.2000s\nwant\n%.2000s", got.Bytes(), want.Bytes())
	}
}

var markedCommand = regexp.MustCompile(`##(\w*\[)`)

// TestGuardIsByCharacter checks that jsonGuard escapes its characters at any position, and no other
// characters.
func TestGuardIsByCharacter(t *testing.T) {
	byCharacter := func(text string) string {
		var out strings.Builder
		for _, r := range markedCommand.ReplaceAllString(text, `\u0023#$1`) {
			if r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
				fmt.Fprintf(&out, `\u%04x`, r)
				continue
			}
			out.WriteRune(r)
		}
		return out.String()
	}
	pieces := []string{
		"", "a", "~", "word", "\x00", "\x7f", "\u0080", "\u009f", "\u00a0", "é", "\u202e", "\u2028", "\u061c", "…", "\U0001f600", "\xff", "\xc2",
		"#", "##", "##[", "##vso[", "##é[", "\"", "$1", "[", " ", "\n",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text strings.Builder
		for range 1 + random.IntN(12) {
			text.WriteString(strings.Repeat(pieces[random.IntN(len(pieces))], 1+random.IntN(3)))
		}
		var got strings.Builder
		n, err := jsonGuard{&got}.Write([]byte(text.String()))
		if want := byCharacter(text.String()); got.String() != want || n != text.Len() || err != nil {
			t.Fatalf("%q\n got %q, %d bytes, %v\nwant %q", text.String(), got.String(), n, err, want)
		}
	}
}

// encoded is an entry that counts how many entries were encoded.
type encoded struct{ times *int }

func (e encoded) MarshalJSON() ([]byte, error) {
	*e.times++
	return fmt.Appendf(nil, `"entry %d %s"`, *e.times, strings.Repeat("x", 1<<16)), nil
}

// TestJSONIsNeverWhole checks that JSON does not hold the whole text. Each entry must be written
// before the entry after the next is encoded.
func TestJSONIsNeverWhole(t *testing.T) {
	times, written := 0, 0
	r := struct {
		Nodes []encoded `json:"nodes"`
	}{slices.Repeat([]encoded{{&times}}, 10)}
	err := JSON(writes(func(text []byte) {
		if times > written+2 {
			t.Errorf("%d entries were written when there were %d", written, times)
		}
		written += bytes.Count(text, []byte("entry "))
	}), r)
	if err != nil || times != len(r.Nodes) || written != times {
		t.Errorf("%d entries of %d, %d written, %v", times, len(r.Nodes), written, err)
	}
}

// writes is called with everything that is written.
type writes func(text []byte)

func (w writes) Write(text []byte) (int, error) {
	w(text)
	return len(text), nil
}
