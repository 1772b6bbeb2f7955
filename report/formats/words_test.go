// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
	"preflight/facts"
	"preflight/report"
	"preflight/report/ci"
	"preflight/testhosts/reporttest"
)

// TestConclusion checks that nodes that break only the team's policy do not make the conclusion say
// that the launch will not work.
func TestConclusion(t *testing.T) {
	failed := func(ids ...string) checks.Report {
		r := reporttest.Passing()
		r.Verdict, r.ExitCode = checks.Fail, 1
		for _, id := range ids {
			r.Findings = append(r.Findings, checks.Finding{Check: id, Verdict: checks.Fail, Nodes: []string{"w1"}})
		}
		return r
	}
	warned := failed("drift")
	warned.Findings = append(warned.Findings, checks.Finding{Check: "shm-size", Verdict: checks.Warn, Nodes: []string{"w1"}})
	for name, c := range map[string]struct {
		report checks.Report
		want   string
	}{
		"a baseline":                {failed("drift"), "does not match the policy or the baseline: 1 problem on w1"},
		"a policy and a baseline":   {failed("policy", "expectation", "drift"), "does not match the policy or the baseline: 3 problems on w1"},
		"a baseline, and a warning": {warned, "does not match the policy or the baseline: 1 problem on w1"},
		"a baseline, and more":      {failed("drift", "shm-size"), "this launch will not work: 1 problem on w1; does not match the policy or the baseline: 1 problem on w1"},
		"only warnings":             {reporttest.Strict(), "1 warning, and --strict makes warnings fail"},
	} {
		if got := report.WordsOf(c.report).Conclusion(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	drifted := failed("drift")
	for _, name := range []string{"text", "html", "markdown", "github", "nagios"} {
		f, _ := Of(name)
		if text := rendered(t, f, drifted, report.Style{}); !strings.Contains(text, "does not match the policy or the baseline: 1 problem on w1") || strings.Contains(text, "will not work") {
			t.Errorf("%s says something else:\n%s", name, text)
		}
	}
}

// TestSummaryLine checks that the summary counts waived findings, and that it shows the time of the
// run in UTC, whatever the time zone of the report.
func TestSummaryLine(t *testing.T) {
	r := reporttest.Passing()
	r.Seconds, r.Began = 5.14, "2026-11-22T01:20:59+06:00"
	r.Waived = []checks.Waived{{Finding: checks.Finding{Check: "shm-size"}}, {Finding: checks.Finding{Check: "drift"}}}
	const want = "1 node, 1 check passed, 2 findings waived, 5.1 s, 2026-11-21 19:20 UTC"
	for _, name := range []string{"text", "html", "markdown", "github"} {
		f, _ := Of(name)
		if text := rendered(t, f, r, report.Style{Quiet: true}); !strings.Contains(text, want) {
			t.Errorf("%s does not say %q:\n%.600s", name, want, text)
		}
	}
	r.Began = "yesterday"
	if text := reporttest.Rendered(t, ci.Markdown, r); !strings.Contains(text, "5.1 s\n") {
		t.Errorf("of a time that nobody can read:\n%s", text)
	}
}

// TestQuietSaysWhyUnknown checks that exit code 2 always comes with a reason.
func TestQuietSaysWhyUnknown(t *testing.T) {
	untold := func(outcomes ...checks.Outcome) checks.Report {
		r := reporttest.Passing()
		r.Verdict, r.ExitCode, r.Checks = checks.Unknown, 2, outcomes
		return r
	}
	off := checks.Outcome{Check: "ssh-reach", Verdict: checks.Skip, Reason: checks.SwitchedOff}
	drift := checks.Outcome{Check: "drift", Verdict: checks.Skip, Reason: "only with --baseline"}
	stuck := checks.Outcome{Check: "gpu-idle", Verdict: checks.Unknown, Reason: "nvml: no answer"}
	half := untold(off, stuck, checks.Outcome{Check: "shm-size", Verdict: checks.Unknown})
	half.Findings = []checks.Finding{{Check: "shm-size", Verdict: checks.Unknown, Nodes: []string{"w1"}, Summary: "shm: denied"}}
	for name, c := range map[string]struct {
		report checks.Report
		want   string
	}{
		"nothing judged":       {untold(off, drift), "skipped       drift: only with --baseline\n"},
		"nothing left on":      {untold(off), "skipped       ssh-reach: switched off\n"},
		"not complete":         {untold(off, drift, stuck), "unknown       gpu-idle: nvml: no answer\n"},
		"not complete by half": {half, "unknown       gpu-idle: nvml: no answer\n"},
	} {
		text := rendered(t, All[0], c.report, report.Style{Quiet: true})
		paragraphs := strings.SplitAfter(text, "\n\n")
		if diff := cmp.Diff(c.want, paragraphs[len(paragraphs)-1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, render := range map[string]func(io.Writer, checks.Report) error{"junit": ci.JUnit, "github": ci.GitHub} {
		if text := reporttest.Rendered(t, render, untold(off, drift)); !strings.Contains(text, "skipped: drift: only with --baseline") {
			t.Errorf("%s does not say why:\n%s", name, text)
		}
	}
}

// TestGoneNodes checks that a finding with as many nodes as the fleet does not say "all nodes" if
// one of the nodes is not in the fleet.
func TestGoneNodes(t *testing.T) {
	r := checks.Report{Verdict: checks.Fail, ExitCode: 1, Fleet: facts.Fleet{Nodes: []facts.Node{{Name: "w1"}, {Name: "w2"}, {Name: "w3"}}}}
	r.Findings = []checks.Finding{
		{Check: "drift", Verdict: checks.Fail, Nodes: []string{"w7", "w8", "w9"}, Summary: "gone"},
		{Check: "shm-size", Verdict: checks.Fail, Nodes: []string{"w1", "w2", "w3"}, Summary: "small"},
	}
	for _, name := range []string{"text", "junit", "markdown", "github", "nagios", "html"} {
		f, _ := Of(name)
		text := rendered(t, f, r, report.Style{})
		if !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(text, "&#91;", "["), "&#93;", "]"), "w[7-9]") || !strings.Contains(text, "all 3 nodes") {
			t.Errorf("%s: w[7-9] and all 3 nodes are not told apart:\n%.2000s", name, text)
		}
	}
}
