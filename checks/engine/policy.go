// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/agreement"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

var PolicyInForce = checks.Check{
	ID:         checks.PolicyID,
	Severity:   checks.Error,
	FromPolicy: true,
	Agreed:     true,
	Run:        judgePolicy,
}

func judgePolicy(view checks.View) []checks.Finding {
	findings := namesUnlisted(view)
	switch {
	case view.Policy.File == "" && len(view.Policy.Waivers) == 0:
		return checks.Skipped(agreement.NoPolicy)
	case len(view.Policy.Waivers) == 0 && findings == nil:
		return checks.Skipped("the policy has no waivers")
	case len(view.Policy.Waivers) > 0 && view.Policy.Today == "":
		return append(findings, checks.Finding{Verdict: checks.Unknown, Summary: "today's date is unknown, so no waiver was applied"})
	}
	all := checks.Remember(view, waiversKey{}, func() *waivers { return newWaivers(view.Policy) })
	for _, w := range all.each {
		switch {
		case w.expired(view.Policy.Today):
			findings = append(findings, w.ended(view.Policy.Today))
		case w.short != nil:
			findings = append(findings, w.tooShort())
		case !w.used && all.judged[w.Check] && w.concernsAny(view.All):
			findings = append(findings, w.unused())
		}
	}
	return findings
}

func (w waiver) ended(today string) checks.Finding {
	return checks.Finding{
		At:      w.At,
		Summary: fmt.Sprintf("the waiver for %s ended on %s: its findings count again", w.whose(), w.Until),
		Got:     w.basis(),
		Want:    "an end date in the future (today is " + today + "), or no waiver",
		Remedy:  []fix.Command{fix.Note("repair what it covered, then remove the waiver at %s", fix.Text(w.At)), fix.Note("or agree on a new date, and set until: at %s", fix.Text(w.At))},
	}
}

func (w waiver) unused() checks.Finding {
	return checks.Finding{
		Verdict: checks.Warn,
		At:      w.At,
		Summary: fmt.Sprintf("the waiver for %s is no longer needed: %s finds nothing that it covers", w.whose(), w.Check),
		Got:     w.basis(),
		Remedy:  []fix.Command{fix.Note("remove the waiver at %s, so that preflight reports the defect if it returns", fix.Text(w.At))},
	}
}

func (w waiver) tooShort() checks.Finding {
	var nodes, left []string
	for _, s := range w.short {
		left = append(left, s.left...)
		if s.node != "" {
			nodes = append(nodes, s.node)
		}
	}
	slices.Sort(left)
	others := text.List(slices.Compact(left))
	on := "the launching machine"
	if nodes != nil {
		slices.Sort(nodes)
		on = hostfile.Fold(slices.Compact(nodes))
	}
	return checks.Finding{
		Verdict: checks.Warn,
		At:      w.At,
		Summary: fmt.Sprintf("the waiver for %s covers only part of the %s finding on %s", w.whose(), w.Check, on),
		Got:     w.basis(),
		Want:    "a waiver that also covers " + others,
		Remedy:  []fix.Command{fix.Note("if that was agreed too, add to the waiver at %s: %s", fix.Text(w.At), fix.Text(others))},
	}
}

func namesUnlisted(view checks.View) []checks.Finding {
	if view.Launch.HostsFile == "" {
		return nil
	}
	listed := map[string]bool{}
	for _, host := range view.Launch.Hosts {
		listed[host.Name], listed[hostfile.Bare(host.Name)] = true, true
	}
	for _, name := range view.Launch.Excluded {
		listed[name], listed[hostfile.Bare(name)] = true, true
	}
	var names, places []string
	note := func(nodes []string, at string) {
		unlisted := slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return listed[name] })
		if len(unlisted) > 0 {
			names, places = append(names, unlisted...), append(places, at)
		}
	}
	for _, g := range view.Policy.Groups {
		note(g.Nodes, g.At)
	}
	for _, e := range view.Policy.Expect {
		note(e.Nodes, e.At)
	}
	for _, w := range view.Policy.Waivers {
		note(w.Nodes, w.At)
	}
	if names == nil {
		return nil
	}
	slices.Sort(names)
	return []checks.Finding{{Verdict: checks.Pass, Summary: fmt.Sprintf("not in %s: %s (%s)", view.Launch.HostsFile, hostfile.Fold(slices.Compact(names)), strings.Join(places, ", "))}}
}

func (w waiver) concernsAny(nodes []facts.Node) bool {
	return slices.ContainsFunc(nodes, func(n facts.Node) bool { return w.covers(n.Name) })
}

func (w waiver) whose() string {
	text := w.Check
	if w.Fact != "" {
		text += " for " + w.Fact
	}
	if len(w.Nodes) > 0 {
		text += " on " + hostfile.Fold(w.Nodes)
	}
	return text
}

func (w waiver) basis() string {
	parts := []string{w.Reason}
	if w.Owner != "" {
		parts = append(parts, "owner "+w.Owner)
	}
	return strings.Join(append(parts, "stated at "+w.At), ", ")
}
