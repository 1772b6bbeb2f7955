// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/fix"
	"preflight/hostfile"
	"preflight/testhosts/fleettest"
)

// noted matches the IDs of notes in the source of packages hostfile and launch.
var noted = regexp.MustCompile(`(?:ID: |\b(?:note|trap|add)\()"([a-z0-9-]+)",|return "([a-z0-9]+(?:-[a-z0-9]+)+)",`)

// TestEveryNoteIsJudged compares noteRules with the notes in the source of the packages.
func TestEveryNoteIsJudged(t *testing.T) {
	set := map[string]bool{}
	root := ".."
	for _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil; _, err = os.Stat(filepath.Join(root, "go.mod")) {
		root = filepath.Join(root, "..")
	}
	for _, folder := range []string{"hostfile", "launch", "launch/args"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range noted.FindAllSubmatch(text, -1) {
				if !strings.HasSuffix(file, "_test.go") {
					set[string(match[1])+string(match[2])] = true
				}
			}
		}
	}
	for name := range set {
		if _, judged := noteRules[name]; !judged {
			t.Errorf("nobody says how the note %q is judged", name)
		}
	}
	for name := range noteRules {
		if !set[name] {
			t.Errorf("no package writes the note %q", name)
		}
	}
}

// TestNotesAreWellSpoken checks the findings for every note, on a fleet with all facts that the
// notes need.
func TestNotesAreWellSpoken(t *testing.T) {
	for name, rule := range noteRules {
		fleet := fleettest.Healthy(3)
		fleet.Launch.Script = "a b.py"
		fleet.Launch.Rendezvous = ""
		fleet.Launch.Arguments = []string{"$X"}
		fleet.Launch.Notes = []hostfile.Note{{ID: name, Line: 2, Message: "NCCL_DEBUG=$X is not what it seems"}}
		if rule.torchrun {
			fleet.Launch.Rendezvous, fleet.Launch.MinNodes, fleet.Launch.MaxNodes, fleet.Launch.PerNode = "static", 3, 3, "8"
		}
		report := engine.Evaluate([]checks.Check{Args, Env}, fleet.Fleet, fleet.Launch, checks.DefaultPolicy())
		for _, f := range report.Findings {
			if counts := f.Verdict == checks.Fail || f.Verdict == checks.Warn; f.Summary == "" || counts && (len(f.Fix) == 0 || f.WouldSee == "") {
				t.Errorf("%s: nothing to be done about %+v", name, f)
			}
			if strings.Contains(name, "-") && strings.Contains(strings.Join(append([]string{f.Summary, f.Got, f.WouldSee}, f.Fix...), " "), name) {
				t.Errorf("%s: a finding names the note: %+v", name, f)
			}
			if rule.look == nil && (f.Verdict == checks.Fail) != rule.fatal || (f.Check == "launcher-env") != rule.exported {
				t.Errorf("%s: %s by %s", name, f.Verdict, f.Check)
			}
		}
		quiet := name == "launcher-args-fanout" || name == "openmpi-eth0" // for these notes, another check reports a finding for every node
		if len(report.Findings) != 1 && !quiet {
			t.Errorf("%s: %d findings:\n%s", name, len(report.Findings), fleettest.Spelled(report.Findings))
		}
	}
}

// TestRetyped checks how arguments must be typed. Every row was tried with DeepSpeed 0.19.8's own
// quoting, pdsh 2.34 and bash 5.2: the script got the argument in the left column.
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
		{"%%n", "%%n"}, // the percent sign is already doubled
		{"100%", "100%"},
		{"%d", "%d"},
		{"a $b", `'a \$b'`},
		{"a `b`", "'a \\`b\\`'"},
		{`a \b`, `'a \\b'`},
		{`a "b"`, `'a "b"'`},
		{"%h of %u", "'%%h of %%u'"},
	} {
		line, _ := fix.Here("%s", fix.List[fix.Word](" ", retyped([]string{c.argument}))).Addressed(fix.Audience{IsRoot: func(string) bool { return false }})
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

// TestRetypedOnce checks that preflight accepts an argument that was typed as its fix says, and
// does not ask to retype it again.
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
