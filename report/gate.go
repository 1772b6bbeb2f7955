package report

import (
	"slices"
	"strings"

	"preflight/checks"
)

// unwrapped is the width of a page whose reader wraps or searches lines itself.
const unwrapped = 1 << 16

// judgement is one check with all that it found.
type judgement struct {
	checks.Outcome
	findings []checks.Finding
	waived   []checks.Waived
}

// explained is whether the check could not look for a reason that another one tells: of
// its own it has no finding that says so.
func (j judgement) explained() bool {
	return j.Verdict == checks.Unknown && !slices.ContainsFunc(j.findings, isUnknown)
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
	of := func(check string, verdict checks.Verdict) *judgement {
		i, listed := at[check]
		if !listed {
			i = len(all)
			at[check] = i
			all = append(all, judgement{Outcome: checks.Outcome{Check: check, Verdict: verdict}})
		}
		return &all[i]
	}
	for _, f := range r.Findings { // they begin with the worst
		one := of(f.Check, f.Verdict)
		one.findings = append(one.findings, f)
	}
	for _, w := range r.Waived {
		one := of(w.Check, checks.Skip)
		one.waived = append(one.waived, w)
	}
	return all
}

// shortened cuts text to so many characters, the last of them "…" where it was cut: behind
// a blank or a comma, so that no name is half there, unless the half of it had to go for that.
func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	kept := string(runes[:most-1])
	if at := strings.LastIndexAny(kept, " ,"); at+1 >= len(kept)/2 && !strings.ContainsRune(" ,", runes[most-1]) {
		kept = kept[:at+1]
	}
	return kept + "…"
}

// escapedLines is Escape for text of several lines, which stay lines; printed to a log,
// none is obeyed there.
func escapedLines(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Escape(line)
	}
	return unobeyed(strings.Join(lines, "\n"))
}
