package report

import (
	"slices"
	"strings"

	"preflight/checks"
)

// unwrapped is the width of a page whose reader wraps or searches lines itself.
const unwrapped = 1 << 16

// warningsFail is whether a warning is among the reasons why the run failed. Beside
// real failures a report does not tell whether its warnings would have failed it too,
// and then it makes no difference to the gate.
func warningsFail(r checks.Report) bool {
	failed := slices.ContainsFunc(r.Findings, func(f checks.Finding) bool { return f.Verdict == checks.Fail })
	return r.ExitCode == 1 && !failed && len(outcomes(r, checks.Fail)) == 0
}

// judgement is one check with all that it found.
type judgement struct {
	checks.Outcome
	findings []checks.Finding
}

// judgements are the checks in the order of the catalogue, those that could not look
// or did not apply included. A finding whose check is not listed brings one of its own:
// no reader may miss it.
func judgements(r checks.Report) []judgement {
	var all []judgement
	at := map[string]int{}
	for _, outcome := range r.Checks {
		at[outcome.Check] = len(all)
		all = append(all, judgement{Outcome: outcome})
	}
	for _, f := range r.Findings {
		i, listed := at[f.Check]
		if !listed {
			i = len(all)
			at[f.Check] = i
			// The findings of a report begin with the worst.
			all = append(all, judgement{Outcome: checks.Outcome{Check: f.Check, Verdict: f.Verdict}})
		}
		all[i].findings = append(all[i].findings, f)
	}
	return all
}

// shortened cuts text to so many characters, the last of them "…" where it was cut.
func shortened(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// escapedLines is Escape for text of several lines, which stay lines.
func escapedLines(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Escape(line)
	}
	return strings.Join(lines, "\n")
}
