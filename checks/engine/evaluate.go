// SPDX-License-Identifier: Apache-2.0

// Package engine evaluates a catalogue of checks over a fleet. It decides which nodes each check
// can see and in which order the checks run. It applies the policy to their findings, and concludes
// the report.
//
// The engine knows no check by name. Each check declares its requirements (Needs, DependsOn, Rung).
// The engine does no I/O, and reports each cause only once.
package engine

import (
	"cmp"
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/advice"
	"preflight/checks/agreement"
	"preflight/checks/compare"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// Evaluate runs the catalogue over a fleet and returns the report. It is pure: the same input gives
// the same report. The caller sets the report's Seconds, Began, Version and Hostfile.
func Evaluate(catalogue []checks.Check, fleet facts.Fleet, prediction launch.Prediction, policy checks.Policy) checks.Report {
	report := checks.Report{
		Schema:       checks.Schema,
		Fleet:        fleet,
		Launch:       prediction,
		Checks:       []checks.Outcome{},
		Findings:     []checks.Finding{},
		Policy:       policy.File,
		Interconnect: advice.Interconnects(fleet.Nodes, prediction),
	}
	report.Diff, report.LeftOut.Differences = compare.Diff(fleet.Nodes)
	e := newEvaluation(catalogue, fleet, prediction, policy)
	report.Advice = advice.Advise(e.view)
	if here, isNode := ranks.HeadNode(e.view); isNode {
		report.LaunchedFrom = here.Name
	}
	judged := make([][]checks.Finding, len(catalogue))
	outcomes := make([]checks.Outcome, len(catalogue))
	for _, i := range InOrder(catalogue) {
		outcomes[i], judged[i] = e.judge(catalogue[i])
	}
	nodes := NewAddressing(fleet, prediction)
	reported := map[[2]string]bool{}
	for i, findings := range judged {
		report.Checks = append(report.Checks, outcomes[i])
		report.Findings = append(report.Findings, nodes.Fold(unreported(reported, findings))...)
	}
	report.Waived = e.waivers.waived(nodes)
	slices.SortStableFunc(report.Findings, func(a, b checks.Finding) int {
		return cmp.Compare(checks.Gravity(a.Verdict), checks.Gravity(b.Verdict))
	})
	report.Conclude(policy.Strict)
	return report
}

// InOrder returns the indexes of the checks in the order of evaluation. That is the order of the
// catalogue, except that the dependencies of a check come before the check. A dependency that is
// not in the catalogue finds nothing.
func InOrder(catalogue []checks.Check) []int {
	place := map[string]int{}
	for i, check := range catalogue {
		place[check.ID] = i
	}
	var order []int
	entered := map[int]bool{}
	var enter func(int)
	enter = func(i int) {
		if entered[i] {
			return
		}
		entered[i] = true
		for _, id := range catalogue[i].DependsOn {
			if before, known := place[id]; known {
				enter(before)
			}
		}
		order = append(order, i)
	}
	for i := range catalogue {
		enter(i)
	}
	return order
}

type evaluation struct {
	fleet   facts.Fleet
	view    checks.View // the same for every check, except for Nodes, Head and the functions
	ladder  []checks.Check
	held    *agreement.Held
	waivers *waivers
	// found holds the findings of each check that has run, with the verdicts under the policy.
	found map[string][]checks.Finding
	// reported holds, for each check and node, the gravest finding that counts.
	reported map[string]map[string]checks.Finding
	stops    map[*facts.Node]stop
	sights   map[string]checks.Sight // one entry for all checks with the same needs
}

func newEvaluation(catalogue []checks.Check, fleet facts.Fleet, prediction launch.Prediction, policy checks.Policy) *evaluation {
	e := &evaluation{
		fleet: fleet, waivers: newWaivers(policy), found: map[string][]checks.Finding{},
		reported: map[string]map[string]checks.Finding{}, stops: map[*facts.Node]stop{}, sights: map[string]checks.Sight{},
	}
	for _, check := range catalogue {
		if check.Rung > 0 {
			e.ladder = append(e.ladder, check)
		}
	}
	e.view = checks.View{All: fleet.Nodes, Head: fleet.Head, Launch: prediction, Policy: policy, NotTried: fleet.NotTried, Memory: checks.Memory{}}
	e.held = agreement.Hold(fleet, policy, e.sight)
	e.view.Memory[agreement.HeldKey{}], e.view.Memory[waiversKey{}] = e.held, e.waivers
	return e
}

func (e *evaluation) judge(check checks.Check) (checks.Outcome, []checks.Finding) {
	policy := e.view.Policy
	outcome := checks.Outcome{Check: check.ID, Severity: policy.SeverityOf(check)}
	if policy.SwitchesOff(check.ID) {
		outcome.Verdict, outcome.Reason = checks.Skip, checks.SwitchedOff
		return outcome, nil
	}
	for _, section := range check.Needs {
		if reason, rightly := e.fleet.NotTried[section]; rightly {
			outcome.Verdict, outcome.Reason = checks.Skip, reason
			return outcome, nil
		}
	}
	sight := e.sightOf(check)
	findings := sight.Unknown
	if sight.Head == "" && len(sight.Nodes) > 0 {
		findings = append(findings, e.run(check, sight)...)
	}
	for i := range findings {
		complete(&findings[i], check)
		if !findings[i].Weighed {
			findings[i].Verdict = policy.Weigh(check.ID, check.Severity, findings[i].Verdict)
		}
	}
	e.found[check.ID] = slices.Clone(findings[len(sight.Unknown):]) // leaves out the unknowns for nodes that lack a section
	if check.Undecided != "" {
		findings = sight.Unknown
		if sight.Head == "" && len(sight.Nodes) > 0 {
			findings = append(findings, checks.Finding{Check: check.ID, Verdict: checks.Unknown, Summary: check.Undecided, Explained: true})
		}
	}
	findings, waived := e.waivers.takeOut(findings)
	outcome.Verdict, outcome.Reason = conclude(findings, sight)
	if waived && outcome.Verdict == checks.Pass {
		outcome.Verdict, outcome.Reason = checks.Skip, checks.AllWaived
	}
	e.waivers.note(check, outcome.Verdict, findings, sight)
	e.reported[check.ID] = gravest(findings)
	return outcome, slices.DeleteFunc(findings, func(f checks.Finding) bool {
		return f.Verdict == checks.Skip || f.Verdict == checks.Pass || f.Explained
	})
}

func (e *evaluation) run(check checks.Check, sight checks.Sight) []checks.Finding {
	view := e.view
	view.Nodes, view.Head = sight.Nodes, nil
	if e.fleet.Head != nil && (!check.OnHead || sight.Head == "") {
		view.Head = e.fleet.Head
	}
	view.Found = func(id string, verdicts ...checks.Verdict) map[string]bool {
		mustDepend(check, id)
		return e.answer(id, verdicts)
	}
	view.Reported = func(id, node string) (checks.Finding, bool) {
		mustDepend(check, id)
		f, ok := e.reported[id][node]
		return f, ok
	}
	weighs := view.Policy.SeverityOf(check)
	view.Stated = func(fact string) []checks.Stated { return e.held.Of(fact, view.Policy, weighs, e.waivers.waives) }
	findings := check.Run(view)
	for i, f := range findings {
		if check.OnHead && f.Nodes == nil && f.Verdict != checks.Skip {
			findings[i].Nodes = []string{view.Head.Name}
		}
	}
	return findings
}

// mustDepend panics if a check asks for the findings of a check that it does not list in DependsOn.
// The other check might not have run yet.
func mustDepend(check checks.Check, id string) {
	if !slices.Contains(check.DependsOn, id) {
		panic(fmt.Sprintf("checks: %s asks what %s found, and does not depend on it", check.ID, id))
	}
}

// question asks for the nodes for which a check has a finding with one of some verdicts.
type question struct {
	check    string
	verdicts [4]checks.Verdict
}

// answer computes the answer to each question only once, because checks ask again for each node.
func (e *evaluation) answer(check string, verdicts []checks.Verdict) map[string]bool {
	q := question{check: check}
	copy(q.verdicts[:], verdicts)
	return checks.Remember(e.view, q, func() map[string]bool {
		nodes := map[string]bool{}
		for _, f := range e.found[check] {
			if !slices.Contains(verdicts, f.Verdict) {
				continue
			}
			for _, node := range f.Nodes {
				nodes[node] = true
			}
		}
		return nodes
	})
}

// gravest returns the gravest warning or failure of each node.
func gravest(findings []checks.Finding) map[string]checks.Finding {
	of := map[string]checks.Finding{}
	for _, f := range findings {
		if f.Verdict != checks.Fail && f.Verdict != checks.Warn {
			continue
		}
		for _, node := range f.Nodes {
			if known, met := of[node]; !met || checks.Gravity(f.Verdict) < checks.Gravity(known.Verdict) {
				of[node] = f
			}
		}
	}
	return of
}

func complete(f *checks.Finding, check checks.Check) {
	f.Check = check.ID
	if f.Verdict == "" {
		f.Verdict = checks.Fail
		if check.Severity == checks.Warning {
			f.Verdict = checks.Warn
		}
	}
	if f.WouldSee == "" && (f.Verdict == checks.Fail || f.Verdict == checks.Warn) {
		f.WouldSee = check.Text().WouldSee
	}
}

// unreported leaves out unknowns that an earlier check has already reported for the same nodes in
// the same words. A section that did not answer then takes one line, not one for each check that
// needs the section. The verdicts of the checks stay unknown.
func unreported(reported map[[2]string]bool, findings []checks.Finding) []checks.Finding {
	var fresh []checks.Finding
	for _, f := range findings {
		repeats := f.Verdict == checks.Unknown && len(f.Nodes) > 0
		for _, node := range f.Nodes {
			repeats = repeats && reported[[2]string{node, f.Summary}]
		}
		if !repeats {
			fresh = append(fresh, f)
		}
	}
	for _, f := range fresh {
		for _, node := range f.Nodes {
			reported[[2]string{node, f.Summary}] = true
		}
	}
	return fresh
}

// conclude returns the verdict of a check. The text is the reason for a skip or an unknown, or says
// what a pass does not cover. A check is skipped only if it saw every reached node, because it
// might apply to the nodes that it did not see.
func conclude(findings []checks.Finding, sight checks.Sight) (checks.Verdict, string) {
	verdict, skipped := checks.Pass, ""
	var reasons, but []string
	for _, f := range findings {
		switch f.Verdict {
		case checks.Skip:
			skipped = f.Summary
			continue
		case checks.Pass:
			but = append(but, f.Summary)
			continue
		}
		if checks.Gravity(f.Verdict) < checks.Gravity(verdict) {
			verdict = f.Verdict
		}
		if f.Verdict == checks.Unknown && !slices.Contains(reasons, f.Summary) {
			reasons = append(reasons, f.Summary)
		}
	}
	if sight.Head != "" {
		reasons = append(reasons, sight.Head)
	}
	switch gone := hostfile.Fold(sight.Failed) + " not reached"; {
	case len(sight.Failed) == 0:
	case len(sight.Nodes) == 0: // the check saw no node
		reasons = append(reasons, gone)
	default:
		but = append(but, gone)
	}
	if len(sight.Unreached) > 0 {
		reasons = append(reasons, hostfile.Fold(sight.Unreached)+" not reached")
	}
	if len(sight.Nodes) == 0 && len(reasons) == 0 {
		reasons = append(reasons, "there is no node to check")
	}
	if len(reasons) > 0 && checks.Gravity(checks.Unknown) < checks.Gravity(verdict) {
		verdict = checks.Unknown
	}
	switch {
	case verdict == checks.Unknown:
		return checks.Unknown, joinedOnce(append(reasons, but...), "; ")
	case verdict == checks.Pass && skipped != "":
		return checks.Skip, skipped
	case verdict == checks.Pass:
		return checks.Pass, joinedOnce(but, "; ")
	}
	return verdict, ""
}

// sightOf returns the nodes that a check can examine, and why it cannot examine the others.
func (e *evaluation) sightOf(check checks.Check) checks.Sight {
	if !check.OnHead {
		return e.sight(check)
	}
	sight := checks.Sight{Nodes: e.view.Everywhere()}
	if e.fleet.Head == nil {
		sight.Head = "the launching machine was not checked"
	} else if reason := check.Missing(e.fleet.Head); reason != "" {
		sight.Head = "launching machine: " + reason
	}
	return sight
}

// sight computes the sight of a check only once for all checks that need the same sections of the
// nodes.
func (e *evaluation) sight(check checks.Check) checks.Sight {
	needs := fmt.Sprint(check.Rung, check.Needs)
	sight, known := e.sights[needs]
	if !known {
		sight = e.look(check)
		e.sights[needs] = sight
	}
	sight.Unknown = slices.Clone(sight.Unknown) // a copy, because the check changes the findings
	return sight
}

func (e *evaluation) look(check checks.Check) (sight checks.Sight) {
	sight.Nodes = make([]*facts.Node, 0, len(e.fleet.Nodes))
	for i := range e.fleet.Nodes {
		node := &e.fleet.Nodes[i]
		reason := check.Missing(node)
		broke := !node.Reached || node.SSH != nil && node.SSH.Cause != ""
		if check.Beyond(node) || reason != "" && broke {
			switch at := e.stopOf(node); {
			case at.silenced:
				sight.Unknown = append(sight.Unknown, at.finding)
			case at.fails:
				sight.Failed = append(sight.Failed, node.Name)
			default:
				sight.Unreached = append(sight.Unreached, node.Name)
			}
			continue
		}
		if reason != "" {
			sight.Unknown = append(sight.Unknown, checks.Finding{Verdict: checks.Unknown, Nodes: []string{node.Name}, Summary: reason})
			continue
		}
		sight.Nodes = append(sight.Nodes, node)
	}
	return sight
}

// stop describes the failure of the login to a node, and its consequences.
type stop struct {
	finding checks.Finding
	// silenced means that the check that would report the failure is switched off. The finding then
	// appears under each other check, so no node is left out silently.
	silenced bool
	fails    bool // whether the check that reports the failure fails the run
}

// stopOf computes the stop only once per node, because every check asks for it.
func (e *evaluation) stopOf(node *facts.Node) stop {
	at, known := e.stops[node]
	if !known {
		at = e.stopped(node)
		e.stops[node] = at
	}
	return at
}

func (e *evaluation) stopped(node *facts.Node) stop {
	policy := e.view.Policy
	for _, check := range e.ladder {
		rung, f := check.Stopped(node)
		if rung != check.Rung {
			continue
		}
		if policy.SwitchesOff(check.ID) {
			f.Verdict, f.WouldSee = checks.Unknown, ""
			f.Summary = "not reached: " + f.Summary
			return stop{finding: f, silenced: true}
		}
		complete(&f, check)
		return stop{fails: policy.Weigh(check.ID, check.Severity, f.Verdict) == checks.Fail && !e.waivers.waives(f, node.Name)}
	}
	return stop{}
}
