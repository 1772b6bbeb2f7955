// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/testhosts/reporttest"
)

// command matches a workflow command as the runner reads it (actions/runner, ActionCommand.cs): a
// line that begins with ::, with properties up to the next ::.
var command = regexp.MustCompile(`^::(error|warning|notice) (file=[^:,\r\n]*,line=[0-9]+,)?title=([^:,\r\n]*)::([^\r\n]*)$`)

type read struct{ level, place, title, text string }

func readCommands(t *testing.T, text string) (all []read) {
	t.Helper()
	back := strings.NewReplacer("%0A", "\n", "%0D", "\r", "%3A", ":", "%2C", ",", "%25", "%")
	for line := range strings.Lines(text) {
		parts := command.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if parts == nil {
			t.Fatalf("this is no command: %q", line)
		}
		all = append(all, read{parts[1], parts[2], back.Replace(parts[3]), back.Replace(parts[4])})
	}
	return all
}

func TestGitHub(t *testing.T) {
	for name, want := range map[string][]string{
		"failing": {"notice preflight", "error preflight: ssh-reach on w4", "error preflight: shm-size on w[2-3]",
			"error preflight: unknown on w1", "warning preflight: env-sane on all 4 nodes"},
		"passing":     {"notice preflight"},
		"strict":      {"notice preflight", "error preflight: env-sane on all 4 nodes"},
		"interrupted": {"notice preflight", "error preflight"},
		"undecided":   {"notice preflight", "error preflight"},
		"orphaned":    {"notice preflight", "error preflight: drift on w1"},
		"waiving": {"notice preflight", "error preflight: ssh-reach on w4", "error preflight: shm-size on w[2-3]",
			"error file=preflight.yaml,line=12, preflight: expectation on w3", "error preflight: unknown on w1",
			"warning preflight: env-sane on all 4 nodes", "notice file=preflight.yaml,line=31, preflight: waived: shm-size on w1",
			"notice preflight: waived: path-mtu on w[2-3]"},
	} {
		text := reporttest.Rendered(t, GitHub, reporttest.Cases()[name])
		if name == "failing" {
			reporttest.Golden(t, "github.txt", []byte(text))
		}
		var got []string
		for _, one := range readCommands(t, text) {
			got = append(got, strings.Join(strings.Fields(one.level+" "+one.place+" "+one.title), " "))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestGitHubSaysWhy checks that the error of a run without findings says what is incomplete.
func TestGitHubSaysWhy(t *testing.T) {
	all := readCommands(t, reporttest.Rendered(t, GitHub, reporttest.Undecided()))
	if text := all[1].text; !strings.Contains(text, "cannot tell") || !strings.Contains(text, "unknown: ssh-login, shm-size: w1 not reached") {
		t.Errorf("the error says %q", text)
	}
}

// TestGitHubHostile checks that a node's text never becomes a command or a property, and that the
// text is complete.
func TestGitHubHostile(t *testing.T) {
	all := readCommands(t, reporttest.Rendered(t, GitHub, reporttest.Hostile()))
	if len(all) != 5 {
		t.Errorf("%d commands, want 5: %q", len(all), all)
	}
	if shm := all[1]; !strings.Contains(shm.text, "%0A::error::in") || strings.Contains(shm.text, "\r") {
		t.Errorf("the text is not what the node said: %q", shm.text)
	}
}

// TestGitHubPlaces checks that an annotation gets a place only if the file can be in the checkout.
func TestGitHubPlaces(t *testing.T) {
	for at, want := range map[string]string{
		"preflight.yaml:12":       "file=preflight.yaml,line=12,",
		"./a/../cluster/p,1.y:3":  "file=cluster/p%2C1.y,line=3,",
		"../preflight.yaml:12":    "",
		"a/../../p.yaml:12":       "",
		"/etc/preflight.yaml:12":  "",
		"preflight.yaml":          "",
		"preflight.yaml:":         "",
		"preflight.yaml:1::error": "",
		"":                        "",
	} {
		if got := inCheckout(at); got != want {
			t.Errorf("%q is at %q, want %q", at, got, want)
		}
	}
}

func TestGitHubShowsNoMoreThanGitHubDoes(t *testing.T) {
	for n, want := range map[int]struct {
		lines int
		last  string
	}{
		10: {10, "number 9"},
		11: {10, "and 2 more errors"},
		99: {10, "and 90 more errors"},
	} {
		r := reporttest.Passing()
		r.Verdict, r.ExitCode = checks.Fail, 1
		for i := range n {
			r.Findings = append(r.Findings, checks.Finding{Check: "c", Verdict: checks.Fail, Nodes: []string{"w1"}, Summary: fmt.Sprint("number ", i)})
		}
		all := readCommands(t, reporttest.Rendered(t, GitHub, r))[1:]
		if last := all[len(all)-1]; len(all) != want.lines || !strings.HasPrefix(last.text, want.last) {
			t.Errorf("%d findings: %d annotations, the last %q", n, len(all), last.text)
		}
	}
}
