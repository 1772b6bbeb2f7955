package report

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/checks"
)

// TestConclusion: a launch may work on nodes that are not what a team has agreed on.
func TestConclusion(t *testing.T) {
	failed := func(ids ...string) checks.Report {
		r := passing()
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
		"a baseline":                {failed("drift"), "not as agreed: 1 problem on w1"},
		"a policy and a baseline":   {failed("policy", "expectation", "drift"), "not as agreed: 3 problems on w1"},
		"a baseline, and a warning": {warned, "not as agreed: 1 problem on w1"},
		"a baseline, and more":      {failed("drift", "shm-size"), "this launch will not work: 2 problems on w1"},
		"only warnings":             {strict(), "1 warning, and --strict makes warnings fail"},
	} {
		if got := pageOf(c.report, Style{}).conclusion(c.report); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	drifted := failed("drift")
	for name, render := range map[string]func(io.Writer, checks.Report) error{
		"text": func(w io.Writer, r checks.Report) error { return Text(w, r, Style{}) }, "html": HTML, "markdown": MarkdownSummary, "github": GitHub, "nagios": Nagios,
	} {
		if text := rendered(t, render, drifted); !strings.Contains(text, "not as agreed: 1 problem on w1") || strings.Contains(text, "will not work") {
			t.Errorf("%s says something else:\n%s", name, text)
		}
	}
}

// TestSummaryLine: what is waived is counted with the rest, and a report that is kept can be
// dated, in whichever zone it was written.
func TestSummaryLine(t *testing.T) {
	r := passing()
	r.Seconds, r.Began = 5.14, "2026-11-22T01:20:59+06:00"
	r.Waived = []checks.Waived{{Finding: checks.Finding{Check: "shm-size"}}, {Finding: checks.Finding{Check: "drift"}}}
	const want = "1 node, 1 check passed, 2 findings waived, 5.1 s, 2026-11-21 19:20 UTC"
	for name, render := range map[string]func(io.Writer, checks.Report) error{
		"text": func(w io.Writer, r checks.Report) error { return Text(w, r, Style{Quiet: true}) }, "html": HTML, "markdown": MarkdownSummary, "github": GitHub,
	} {
		if text := rendered(t, render, r); !strings.Contains(text, want) {
			t.Errorf("%s does not say %q:\n%.600s", name, want, text)
		}
	}
	r.Began = "yesterday"
	if text := rendered(t, MarkdownSummary, r); !strings.Contains(text, "5.1 s\n") {
		t.Errorf("of a time that nobody can read:\n%s", text)
	}
}

// TestQuietSaysWhyUnknown: exit code 2 is never without a reason.
func TestQuietSaysWhyUnknown(t *testing.T) {
	untold := func(outcomes ...checks.Outcome) checks.Report {
		r := passing()
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
		"nothing judged":       {untold(off, drift), "not judged    drift: only with --baseline\n"},
		"nothing left on":      {untold(off), "not judged    ssh-reach: switched off\n"},
		"not complete":         {untold(off, drift, stuck), "not complete  gpu-idle: nvml: no answer\n"},
		"not complete by half": {half, "not complete  gpu-idle: nvml: no answer\n"},
	} {
		text := rendered(t, func(w io.Writer, r checks.Report) error { return Text(w, r, Style{Quiet: true}) }, c.report)
		paragraphs := strings.SplitAfter(text, "\n\n")
		if diff := cmp.Diff(c.want, paragraphs[len(paragraphs)-1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, render := range map[string]func(io.Writer, checks.Report) error{"junit": JUnit, "github": GitHub} {
		if text := rendered(t, render, untold(off, drift)); !strings.Contains(text, "not judged: drift: only with --baseline") {
			t.Errorf("%s does not say why:\n%s", name, text)
		}
	}
}
