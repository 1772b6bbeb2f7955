// SPDX-License-Identifier: Apache-2.0

package literal

import (
	"regexp"
	"testing"
)

// expressions use everything that needs care in a Set.
var expressions = []string{
	`abc`, `^abc`, `abc$`, `\babc\b`, `a.c`, `(?i)k[a-c]+`, `(?m)^b|c$`, `é+|第[^步]步`, `\Bb`, `^[\w.-]+: ?`, `^$`, `x*`, `\d{2,3}(?:-|$)`, `[^\s]+ $`, `(?s)a.b`, `\W\z`,
}

// FuzzSet compares Set with package regexp.
func FuzzSet(f *testing.F) {
	for _, text := range []string{"", "abc", "xabc", "abc d", " abc\n", "aXc", "KABC", "\u212aa", "a\nb", "ééc", "第一步", "第步", "w1-2.x: ", "123-", "12", "1234", "ab \xff", "\xffabc", "a\xffc"} {
		f.Add(text)
	}
	all, err := NewSet(expressions...)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := make([]int, len(expressions))
		for i := range got {
			got[i] = -1
		}
		all.Ends(text, got)
		for i, expression := range expressions {
			compiled := regexp.MustCompile(expression)
			one, _ := NewSet(expression)
			if want := compiled.MatchString(text); one.Match(text) != want || got[i] >= 0 != want {
				t.Errorf("%q on %q: %v, want %v", expression, text, !want, want)
			}
			compiled.Longest()
			if at := compiled.FindStringIndex(text); at != nil && expression[0] == '^' && got[i] != at[1] {
				t.Errorf("%q on %q ends at %d, want %d", expression, text, got[i], at[1])
			}
		}
	})
}

// TestSetFull checks that a Set takes limited memory, and is right when it has given up building
// states.
func TestSetFull(t *testing.T) {
	s := MustSet(`^x`, `a[ab]{12}c`)
	text := make([]byte, 100_000)
	for i, seed := 0, uint32(1); i < len(text); i++ {
		seed = seed*1664525 + 1013904223
		text[i] = 'a' + byte(seed>>31)
	}
	for range 3 {
		for end, want := range map[string]bool{"": false, "aaaaaaaaaaaaac": true, "c" + string(text): string(text)[len(text)-13] == 'a'} {
			if got := s.Match(string(text) + end); got != want {
				t.Errorf("%.20q: %v", end, got)
			}
			ends := []int{0, 0}
			if s.Ends("x"+string(text)+end, ends); ends[0] != 1 || ends[1] > 0 != want {
				t.Errorf("%.20q: %v", end, ends)
			}
		}
	}
	if s.filled.Load() < mostFilled || len(s.numbers) > mostStates {
		t.Errorf("filled %d times, %d states", s.filled.Load(), len(s.numbers))
	}
}
