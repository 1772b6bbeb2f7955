// Package ci renders a finished report for the programs of a team: JUnit, Markdown,
// GitHub's annotations, Nagios, Prometheus, and lists of hosts.
//
// It refuses to look better than the report's exit code, and to hand on what a node said
// in a way that its reader could take for markup, for a command or for another record.
package ci

import (
	"slices"

	"preflight/checks"
)

// judgement is one check with all that it found.
type judgement struct {
	checks.Outcome
	findings []checks.Finding
	waived   []checks.Waived
}

// explained is whether the check could not look for a reason that another one tells: of
// its own it has no finding that says so.
func (j judgement) explained() bool {
	return j.Verdict == checks.Unknown && !slices.ContainsFunc(j.findings, func(f checks.Finding) bool { return f.Verdict == checks.Unknown })
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
