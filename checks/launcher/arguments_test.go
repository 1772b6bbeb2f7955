package launcher

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks/fix"
)

// What arrives was tried with DeepSpeed 0.19.8's own quoting, pdsh 2.34 and
// bash 5.2: every script got the argument as it stands on the left.
func TestRetyped(t *testing.T) {
	for _, c := range []struct{ argument, typed string }{
		{"plain", "plain"},
		{"--lr=1e-4", "--lr=1e-4"},
		{"a b", "'a b'"},
		{"$HOME", `''\''$HOME'\'''`},
		{"a;b", `''\''a;b'\'''`},
		{"it's", `''\''it'\''\'\'''\''s'\'''`},
		{"%n", "%%n"},
		{"%%", "%%%"},
		{"%%n", "%%n"}, // doubled already
		{"100%", "100%"},
		{"%d", "%d"},
		{"a $b", `'a \$b'`},
		{"a `b`", "'a \\`b\\`'"},
		{`a \b`, `'a \\b'`},
		{`a "b"`, `'a "b"'`},
		{"%h of %u", "'%%h of %%u'"},
	} {
		line := fix.Here("%s", fix.List[fix.Word](" ", retyped([]string{c.argument}))).Addressed(fix.Audience{IsRoot: func(string) bool { return false }})
		if diff := cmp.Diff(c.typed, line); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.argument, diff)
		}
	}
}

func TestBreaksUp(t *testing.T) {
	for word, want := range map[string]bool{
		"plain": false, "a;b": true, "a|b": true, "(a)": true, "a\nb": true, "'a;b'": false, `"a;b"`: false, `a\;b`: false,
		"it's": true, `"a`: true, `a\`: true, `'a\'`: false, `"a\"b"`: false, "$HOME": false, "*": false,
	} {
		if got := breaksUp(word); got != want {
			t.Errorf("breaksUp(%q) = %v, want %v", word, got, want)
		}
	}
}

// TestRetypedOnce: what was typed as a fix said is not to be retyped again.
func TestRetypedOnce(t *testing.T) {
	for _, argument := range []string{`$HOME`, `{"a":1}`, `a;b`, `two $words here`, "a `b` c", `back\slash and blank`, `50%n`, `it's`, `--x=$A`} {
		if meant(argument) {
			t.Errorf("%s passes for quoted", argument)
		}
		if typed := handedOn(argument); !meant(typed) {
			t.Errorf("%s, typed as %s as told, is to be retyped", argument, typed)
		}
	}
}
