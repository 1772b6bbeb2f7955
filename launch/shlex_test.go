package launch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each row was also run through shlex.split of Python 3.11.
func TestSplitWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":                      nil,
		" \t\r\n":               nil,
		"-f 3":                  {"-f", "3"},
		"  a\tb\nc\rd ":         {"a", "b", "c", "d"},
		"a\vb\u00a0c":           {"a\vb\u00a0c"},
		"''":                    {""},
		`a "" b`:                {"a", "", "b"},
		`'a b' "c d"`:           {"a b", "c d"},
		`a'b c'd`:               {"ab cd"},
		`'it'"'"'s'`:            {"it's"},
		`a\ b \\ \"`:            {"a b", `\`, `"`},
		`"a\"b\\c\$d\e"`:        {`a"b\c\$d\e`},
		`'a\b'`:                 {`a\b`},
		"a\\\nb":                {"a\nb"},
		"a #b":                  {"a", "#b"},
		"$HOME `x` ;|&":         {"$HOME", "`x`", ";|&"},
		"é 'ü ö'":               {"é", "ü ö"},
		`--mca x "a, b" -x A=1`: {"--mca", "x", "a, b", "-x", "A=1"},
	} {
		got, err := SplitWords(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got)\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"'a":    "No closing quotation",
		`"a\"`:  "No closing quotation",
		`a 'b"`: "No closing quotation",
		`a\`:    "No escaped character",
		`"a\`:   "No escaped character",
	} {
		if _, err := SplitWords(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
