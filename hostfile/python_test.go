// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"testing"
	"unicode"
)

// space holds all characters of str.isspace, from `[hex(i) for i in range(0x110000) if
// chr(i).isspace()]` on Python 3.11.
func TestPySpace(t *testing.T) {
	space := map[rune]bool{
		0x9: true, 0xa: true, 0xb: true, 0xc: true, 0xd: true, 0x1c: true, 0x1d: true, 0x1e: true, 0x1f: true, 0x20: true,
		0x85: true, 0xa0: true, 0x1680: true, 0x2000: true, 0x2001: true, 0x2002: true, 0x2003: true, 0x2004: true,
		0x2005: true, 0x2006: true, 0x2007: true, 0x2008: true, 0x2009: true, 0x200a: true, 0x2028: true, 0x2029: true,
		0x202f: true, 0x205f: true, 0x3000: true,
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if pySpace(r) != space[r] {
			t.Errorf("pySpace(%U) = %v", r, pySpace(r))
		}
	}
}

func TestPyInt(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "12": 12, "007": 7, " 1": 1, "1\u00a0": 1, "-1": -1, "+1": 1, "1_0": 10, "-0": 0, "0_0_7": 7,
	} {
		if got, err := pyInt(text); err != nil || got != want {
			t.Errorf("pyInt(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                     "invalid literal for int() with base 10: ''",
		"a":                    "invalid literal for int() with base 10: 'a'",
		"0-2":                  "invalid literal for int() with base 10: '0-2'",
		"1__0":                 "invalid literal for int() with base 10: '1__0'",
		"_1":                   "invalid literal for int() with base 10: '_1'",
		"1_":                   "invalid literal for int() with base 10: '1_'",
		"- 1":                  "invalid literal for int() with base 10: '- 1'",
		"²":                    "invalid literal for int() with base 10: '²'",
		"it's":                 `invalid literal for int() with base 10: "it's"`,
		"'\"":                  `invalid literal for int() with base 10: '\'"'`,
		"\n\t\\":               `invalid literal for int() with base 10: '\n\t\\'`,
		"\x00\u200b":           `invalid literal for int() with base 10: '\x00\u200b'`,
		"99999999999999999999": "99999999999999999999 is too large a number",
	} {
		if _, err := pyInt(text); err == nil || err.Error() != want {
			t.Errorf("pyInt(%q): %v, want %s", text, err, want)
		}
	}
}
