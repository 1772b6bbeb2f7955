// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"regexp"
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

// expired reports whether the last day of the waiver is over. Comparing the days as text gives the
// right order.
func (w waiver) expired(today string) bool { return today > w.Until }

// covers reports whether the waiver applies to a node. "" stands for the launching machine.
func (w waiver) covers(node string) bool {
	return len(w.Nodes) == 0 || slices.Contains(w.Nodes, node) || slices.Contains(w.Nodes, hostfile.Bare(node))
}

// waivers holds the waivers of a policy, and the findings of this run that they cover.
type waivers struct {
	today  string // "" if unknown; nothing is waived then
	each   []waiver
	taken  []taking
	judged map[string]bool // IDs of the checks that could examine everything
}

type waiver struct {
	checks.Waiver
	fact  *regexp.Regexp
	used  bool
	short []shortfall
}

// shortfall is a finding on a node for which waivers cover only some facts. left lists the facts
// that no waiver covers.
type shortfall struct {
	node string
	left []string
}

// taking holds the findings that some waivers cover together. by lists the indexes of these
// waivers.
type taking struct {
	by       []int
	findings []checks.Finding
}

// waiversKey is the key of the waivers in the Memory of an evaluation.
type waiversKey struct{}

func newWaivers(policy checks.Policy) *waivers {
	w := &waivers{today: policy.Today, judged: map[string]bool{}}
	for _, one := range policy.Waivers {
		w.each = append(w.each, waiver{Waiver: one, fact: agreement.PathPattern(agreement.InFull(one.Fact), ".*")})
	}
	return w
}

func (w *waiver) isOf(fact string) bool {
	return w.Fact == "" || w.fact.MatchString(agreement.InFull(fact))
}

func (w *waivers) inForce(check, node string) (places []int) {
	for i, one := range w.each {
		if w.today != "" && one.Check == check && !one.expired(w.today) && one.covers(node) {
			places = append(places, i)
		}
	}
	return places
}

func factsOf(f checks.Finding) []string {
	if len(f.Facts) == 0 {
		return []string{f.Fact}
	}
	return f.Facts
}

// covering returns the waivers that together cover all facts of a finding on a node. If one waiver
// covers all of them, the result is that waiver alone. left lists the facts that no waiver covers.
func (w *waivers) covering(f checks.Finding, node string) (by []int, left []string) {
	inForce := w.inForce(f.Check, node)
	for _, i := range inForce {
		other := func(fact string) bool { return !w.each[i].isOf(fact) }
		if !slices.ContainsFunc(factsOf(f), other) {
			return []int{i}, nil
		}
	}
	for _, fact := range factsOf(f) {
		at := slices.IndexFunc(inForce, func(i int) bool { return w.each[i].isOf(fact) })
		if at < 0 {
			left = append(left, fact)
			continue
		}
		by = append(by, inForce[at])
	}
	slices.Sort(by)
	return slices.Compact(by), left
}

func (w *waivers) waives(f checks.Finding, node string) bool {
	by, left := w.covering(f, node)
	return by != nil && left == nil
}

// takeOut removes the waived nodes from a check's findings. It reports whether it removed any.
func (w *waivers) takeOut(findings []checks.Finding) (counting []checks.Finding, waived bool) {
	for _, f := range findings {
		where := f.Nodes
		if len(where) == 0 {
			where = []string{""} // a finding of the launching machine, or of no machine
		}
		var nodes []string
		for _, node := range where {
			if (f.Verdict == checks.Fail || f.Verdict == checks.Warn) && w.take(f, node) {
				waived = true
			} else {
				nodes = append(nodes, node)
			}
		}
		if nodes == nil {
			continue
		}
		if len(f.Nodes) > 0 {
			f.Nodes = nodes
		}
		counting = append(counting, f)
	}
	return counting, waived
}

func (w *waivers) take(f checks.Finding, node string) bool {
	by, left := w.covering(f, node)
	if left != nil {
		for _, i := range by {
			w.each[i].short = append(w.each[i].short, shortfall{node, left})
		}
		return false
	}
	for _, i := range by {
		w.each[i].used = true
	}
	if node != "" {
		f.Nodes = []string{node}
	}
	at := slices.IndexFunc(w.taken, func(t taking) bool { return slices.Equal(t.by, by) })
	if at < 0 {
		at = len(w.taken)
		w.taken = append(w.taken, taking{by: by})
	}
	w.taken[at].findings = append(w.taken[at].findings, f)
	return true
}

// note records whether a check could examine everything. If it could, a waiver for the check that
// covered nothing is not needed.
func (w *waivers) note(check checks.Check, verdict checks.Verdict, findings []checks.Finding, sight checks.Sight) {
	unclear := slices.ContainsFunc(findings, func(f checks.Finding) bool { return f.Verdict == checks.Unknown })
	w.judged[check.ID] = verdict != checks.Skip && !unclear && sight.Head == "" && len(sight.Unreached)+len(sight.Failed) == 0
}

// waived returns the waived findings in the order of the waivers. A finding that several waivers
// cover together counts again as soon as the first of these waivers expires.
func (w *waivers) waived(r addressing) (all []checks.Waived) {
	slices.SortFunc(w.taken, func(a, b taking) int { return slices.Compare(a.by, b.by) })
	for _, t := range w.taken {
		var reasons, owners, places []string
		until := w.each[t.by[0]].Until
		for _, i := range t.by {
			one := w.each[i]
			reasons, owners, places = append(reasons, one.Reason), append(owners, one.Owner), append(places, one.At)
			until = min(until, one.Until)
		}
		for _, f := range r.Fold(t.findings) {
			all = append(all, checks.Waived{Finding: f, Reason: joinedOnce(reasons, "; "), Owner: joinedOnce(owners, ", "), Until: until, At: joinedOnce(places, ", ")})
		}
	}
	return all
}

func joinedOnce(texts []string, between string) string {
	var once []string
	for _, text := range texts {
		if text != "" && !slices.Contains(once, text) {
			once = append(once, text)
		}
	}
	return strings.Join(once, between)
}
