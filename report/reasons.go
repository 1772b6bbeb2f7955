// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/catalogue"
)

// Unknown is checks that could not look at the same nodes for one and the same reason:
// one block of a report, not one a check.
type Unknown struct {
	Reason     string
	Nodes      string // folded
	Checks     []string
	Fix, Notes []string
}

// Unknowns are the findings of checks that could not look, those alike in one.
func (w Words) Unknowns() (all []Unknown) {
	unknown := slices.DeleteFunc(slices.Clone(w.report.Findings), func(f checks.Finding) bool { return f.Verdict != checks.Unknown })
	for _, alike := range GroupBy(unknown, func(f checks.Finding) [2]string { return [2]string{f.Summary, w.Nodes(f.Nodes)} }) {
		one := Unknown{Reason: alike.Key[0], Nodes: alike.Key[1]}
		for _, f := range alike.All {
			one.Checks = append(one.Checks, f.Check)
			one.Fix, one.Notes = union(one.Fix, f.Fix), union(one.Notes, f.Notes)
		}
		all = append(all, one)
	}
	return all
}

// union adds those that are not there.
func union(all, more []string) []string {
	for _, one := range more {
		if !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

// Reason is why some checks came to one verdict.
type Reason struct {
	Verdict checks.Verdict
	Text    string
	Checks  []string
}

// Label is what a reason's verdict is called in a list.
func (r Reason) Label() string { return labels[r.Verdict] }

var labels = map[checks.Verdict]string{checks.Pass: "passed", checks.Unknown: "unknown", checks.Skip: "skipped"}

// Reasons are why checks came to a verdict, leaving out those whose findings are shown.
func (w Words) Reasons(v checks.Verdict) (all []Reason) {
	shown := map[string]bool{}
	for _, f := range w.report.Findings {
		shown[f.Check] = true
	}
	others := slices.DeleteFunc(slices.Clone(w.report.Checks), func(o checks.Outcome) bool { return o.Verdict != v || shown[o.Check] })
	for _, alike := range GroupBy(others, func(o checks.Outcome) string { return o.Reason }) {
		all = append(all, Reason{v, alike.Key, idsOf(alike.All)})
	}
	return all
}

// Others are the checks that nothing is shown of: those that passed, are unknown and did
// not apply. What is waived is shown.
func (w Words) Others() (all []Reason) {
	for _, v := range []checks.Verdict{checks.Pass, checks.Unknown, checks.Skip} {
		all = append(all, w.Reasons(v)...)
	}
	return slices.DeleteFunc(all, func(one Reason) bool { return one.Text == checks.AllWaived })
}

// Undecided are the reasons why checks are unknown that no finding tells, and where
// nothing was judged at all why that is.
func (w Words) Undecided() []Reason {
	all := w.Reasons(checks.Unknown)
	judged := func(o checks.Outcome) bool { return o.Verdict != checks.Skip }
	if slices.ContainsFunc(w.report.Checks, judged) {
		return all
	}
	all = append(all, w.Reasons(checks.Skip)...)
	switchedOff := func(one Reason) bool { return one.Text == checks.SwitchedOff }
	if asked := slices.DeleteFunc(slices.Clone(all), switchedOff); len(asked) > 0 {
		return asked
	}
	return all
}

// Unfinished is why the verdict is unknown, a line a reason.
func (w Words) Unfinished() string {
	lines := Map(w.Undecided(), func(one Reason) string { return one.Label() + ": " + strings.Join(one.Checks, ", ") + ": " + one.Text })
	return strings.Join(lines, "\n")
}

// SwitchedOff are the checks that the user wanted not to run.
func SwitchedOff(r checks.Report) []string {
	return idsOf(slices.DeleteFunc(slices.Clone(r.Checks), func(o checks.Outcome) bool { return o.Reason != checks.SwitchedOff }))
}

func Outcomes(r checks.Report, v checks.Verdict) []string {
	return idsOf(slices.DeleteFunc(slices.Clone(r.Checks), func(o checks.Outcome) bool { return o.Verdict != v }))
}

func idsOf(outcomes []checks.Outcome) []string {
	return Map(outcomes, func(o checks.Outcome) string { return o.Check })
}

// NotCovered is what can end the launch and nobody looked at, "" for nothing.
func (w Words) NotCovered() string { return catalogue.NotCovered(w.report.Checks) }
