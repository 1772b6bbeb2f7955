package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"preflight/checks"
)

// conclusion is the verdict as a sentence, and whom it is about. Every format says it.
func (p *page) conclusion(r checks.Report) string {
	count := map[checks.Verdict]int{}
	failing := map[string]bool{}
	for _, f := range r.Findings {
		count[f.Verdict]++
		for _, node := range f.Nodes {
			failing[node] = failing[node] || f.Verdict == checks.Fail
		}
	}
	var sick []string
	for _, node := range r.Nodes {
		if failing[node.Name] {
			sick = append(sick, node.Name)
		}
	}
	var text string
	switch {
	case r.Verdict == checks.Fail && count[checks.Fail] == 0:
		text = plural(count[checks.Warn], "warning") + ", and --strict makes warnings fail"
	case r.Verdict == checks.Fail:
		text = failure(r) + ": " + plural(count[checks.Fail], "problem")
		if len(sick) > 0 {
			text += " on " + p.briefly(sick)
		}
	case r.Verdict == checks.Unknown:
		text = "cannot tell whether this launch will work"
	default:
		text = ready(r)
		if r.Verdict == checks.Warn {
			text += ", with " + plural(count[checks.Warn], "warning")
		}
	}
	if r.Interrupted {
		text += " (interrupted: this is what is known so far)"
	}
	return text
}

// failure is what the findings that fail a run say of the launch.
func failure(r checks.Report) string {
	breaks := func(f checks.Finding) bool {
		check, _ := checks.Lookup(f.Check)
		return f.Verdict == checks.Fail && !check.Agreed
	}
	if slices.ContainsFunc(r.Findings, breaks) {
		return "this launch will not work"
	}
	return "not as agreed"
}

// ready is what a run may say that found nothing: a few checks do not make a
// launch.
func ready(r checks.Report) string {
	if slices.ContainsFunc(r.Checks, func(o checks.Outcome) bool { return o.Reason == checks.SwitchedOff }) {
		return "nothing is wrong that the checks asked for look at"
	}
	return "ready to launch"
}

// summary counts nodes, checks and what is waived, and says how long the run took and
// when it was.
func (p *page) summary(r checks.Report) string {
	reached := 0
	for _, node := range r.Nodes {
		if node.Reached {
			reached++
		}
	}
	parts := []string{plural(len(r.Nodes), "node")}
	if reached < len(r.Nodes) {
		parts = append(parts, fmt.Sprintf("%d reached", reached))
	}
	for _, v := range []checks.Verdict{checks.Pass, checks.Fail, checks.Warn, checks.Unknown} {
		if n := len(outcomes(r, v)); n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", plural(n, "check"), map[checks.Verdict]string{
				checks.Pass: "passed", checks.Fail: "failed", checks.Warn: "warned", checks.Unknown: "not complete",
			}[v]))
		}
	}
	if n := len(r.Waived); n > 0 {
		parts = append(parts, plural(n, "finding")+" waived")
	}
	if r.Seconds > 0 {
		parts = append(parts, fmt.Sprintf("%.1f s", r.Seconds))
	}
	if when := began(r); when != "" {
		parts = append(parts, when)
	}
	if r.Policy != "" { // in every text: a file that was not found leaves no other trace
		parts = append(parts, "policy "+r.Policy)
	}
	return strings.Join(parts, ", ")
}

// began is when the run began, in UTC wherever it is read: the reader of a saved run may
// live in another zone than its nodes. "" where nobody kept it.
func began(r checks.Report) string {
	at, err := time.Parse(time.RFC3339, r.Began)
	if err != nil {
		return ""
	}
	return at.UTC().Format("2006-01-02 15:04 UTC")
}

// untold is why nothing can be told where only verdict and findings are asked for: no
// exit code is without a reason.
func (p *page) untold(r checks.Report) {
	reasons := unsaid(r)
	if len(reasons) > 0 {
		p.line("")
	}
	for _, one := range reasons {
		p.list(one.label, one.checks, one.reason)
	}
}

// unsaidReason is why some checks came to no verdict, and what to call that.
type unsaidReason struct {
	label string
	reasonGroup
}

// unsaid are the reasons why checks are not complete that no finding tells, and where
// nothing was judged at all why that is.
func unsaid(r checks.Report) (all []unsaidReason) {
	for _, group := range byReason(r, checks.Unknown) {
		all = append(all, unsaidReason{"not complete", group})
	}
	judged := func(o checks.Outcome) bool { return o.Verdict != checks.Skip }
	if slices.ContainsFunc(r.Checks, judged) {
		return all
	}
	for _, group := range byReason(r, checks.Skip) {
		all = append(all, unsaidReason{"not judged", group})
	}
	switchedOff := func(one unsaidReason) bool { return one.reason == checks.SwitchedOff }
	if asked := slices.DeleteFunc(slices.Clone(all), switchedOff); len(asked) > 0 {
		return asked
	}
	return all
}
