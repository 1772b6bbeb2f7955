package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// Evaluate judges a fleet by the catalogue. It is pure: the same input gives
// the same report. Seconds, Began, Version and Hostfile are left to the caller.
func Evaluate(catalogue []Check, fleet facts.Fleet, prediction launch.Prediction, policy Policy) Report {
	report := Report{
		Schema:   Schema,
		Fleet:    fleet,
		Launch:   prediction,
		Checks:   []Outcome{},
		Findings: []Finding{},
		Policy:   policy.File,
		Diff:     Diff(fleet.Nodes),
	}
	view := View{All: fleet.Nodes, Launch: prediction, Policy: policy, NotTried: fleet.NotTried, rankEnvs: map[*facts.Node]map[string]facts.Setting{}, networks: map[*facts.Node]launch.Network{}}
	view.cards = launchCards(view)
	view.stated, view.waiving = hold(fleet, policy), newWaiving(policy)
	report.Advice = advise(view)
	report.Interconnect = interconnects(fleet.Nodes, prediction)
	if here, isNode := headNode(View{Head: fleet.Head, All: fleet.Nodes}); isNode {
		report.LaunchedFrom = here.Name
	}
	roster := newRoster(fleet, prediction)
	said := map[[2]string]bool{}
	for _, check := range catalogue {
		outcome, findings := judge(check, fleet, view)
		findings = unsaid(said, findings)
		report.Checks = append(report.Checks, outcome)
		report.Findings = append(report.Findings, roster.fold(findings)...)
	}
	report.Waived = view.waiving.waived(roster)
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Compare(weight(a.Verdict), weight(b.Verdict))
	})
	report.Conclude(policy.Strict)
	return report
}

// Conclude sets the verdict and the exit code from the checks and findings: 1
// when something failed (under strict also when something is warned of), 2 when
// something could not be told, 1 before 2. A run in which every check was
// skipped told nothing.
func (r *Report) Conclude(strict bool) {
	met := map[Verdict]bool{}
	for _, outcome := range r.Checks {
		met[outcome.Verdict] = true
	}
	for _, finding := range r.Findings { // a warning may hide behind its check's unknown
		met[finding.Verdict] = true
	}
	switch {
	case met[Fail], met[Warn] && strict:
		r.Verdict, r.ExitCode = Fail, 1
	case met[Unknown], r.Interrupted, !met[Pass] && !met[Warn]:
		r.Verdict, r.ExitCode = Unknown, 2
	case met[Warn]:
		r.Verdict, r.ExitCode = Warn, 0
	default:
		r.Verdict, r.ExitCode = Pass, 0
	}
}

// weight orders verdicts, the one that matters most first.
func weight(v Verdict) int {
	return slices.Index([]Verdict{Fail, Unknown, Warn, Pass, Skip}, v)
}

// SwitchedOff is the reason of a skip that the user asked for.
const SwitchedOff = "switched off"

// judge runs one check on the nodes that can be judged by it.
func judge(check Check, fleet facts.Fleet, view View) (Outcome, []Finding) {
	outcome := Outcome{Check: check.ID, Severity: view.Policy.weighs(check)}
	view.severity = outcome.Severity
	if view.Policy.SwitchesOff(check.ID) {
		outcome.Verdict, outcome.Reason = Skip, SwitchedOff
		return outcome, nil
	}
	for _, section := range check.Needs {
		if reason, rightly := fleet.NotTried[section]; rightly {
			outcome.Verdict, outcome.Reason = Skip, reason
			return outcome, nil
		}
	}
	var blind blindness
	if check.OnHead {
		view.Nodes, blind = everyNode(view.All), headBlindness(check, fleet.Head)
	} else {
		view.Nodes, blind = visible(check, fleet, view.Policy)
	}
	if fleet.Head != nil && blind.head == "" {
		view.Head = fleet.Head
	}
	findings := blind.findings
	if blind.head == "" && len(view.Nodes) > 0 {
		findings = append(findings, check.Run(view)...)
	}
	for i := range findings {
		complete(&findings[i], check)
		view.Policy.reweigh(&findings[i])
	}
	findings, waived := view.waiving.part(findings)
	outcome.Verdict, outcome.Reason = conclude(findings, blind, len(view.Nodes))
	if waived && outcome.Verdict == Pass {
		outcome.Verdict, outcome.Reason = Skip, AllWaived
	}
	view.waiving.note(check, outcome.Verdict, findings, blind)
	return outcome, slices.DeleteFunc(findings, func(f Finding) bool { return f.Verdict == Skip || f.Verdict == Pass || f.Explained })
}

// complete fills in what a check leaves to its catalogue entry.
func complete(f *Finding, check Check) {
	f.Check = check.ID
	if f.Verdict == "" {
		f.Verdict = Fail
		if check.Severity == Warning {
			f.Verdict = Warn
		}
	}
	if f.WouldSee == "" && (f.Verdict == Fail || f.Verdict == Warn) {
		f.WouldSee = check.WouldSee
	}
}

// conclude is the verdict of one check and, for a skip or an unknown, why; for a pass
// what it does not hold for. A skip needs every node: what was not seen there might have
// applied.
func conclude(findings []Finding, blind blindness, judged int) (Verdict, string) {
	verdict, skipped, but := Pass, "", ""
	var reasons []string
	for _, f := range findings {
		switch f.Verdict {
		case Skip:
			skipped = f.Summary
			continue
		case Pass:
			but = f.Summary
			continue
		}
		if weight(f.Verdict) < weight(verdict) {
			verdict = f.Verdict
		}
		if f.Verdict == Unknown && !slices.Contains(reasons, f.Summary) {
			reasons = append(reasons, f.Summary)
		}
	}
	if blind.head != "" {
		reasons = append(reasons, blind.head)
	}
	if len(blind.unreached) > 0 {
		reasons = append(reasons, hostfile.Fold(blind.unreached)+" not reached")
	}
	if judged == 0 && len(reasons) == 0 {
		reasons = append(reasons, "there is no node to look at")
	}
	if len(reasons) > 0 && weight(Unknown) < weight(verdict) {
		verdict = Unknown
	}
	switch {
	case verdict == Unknown:
		if but != "" {
			reasons = append(reasons, but)
		}
		return Unknown, strings.Join(reasons, "; ")
	case verdict == Pass && skipped != "":
		return Skip, skipped
	case verdict == Pass:
		return Pass, but
	}
	return verdict, ""
}

// blindness is what a check cannot see.
type blindness struct {
	head      string    // why the launching machine cannot be judged
	unreached []string  // nodes whose way in failed: a finding of an ssh check says so, once
	findings  []Finding // one unknown for each node that was reached and lacks a section
}

// visible parts the fleet into the nodes a check can judge and the others.
func visible(check Check, fleet facts.Fleet, policy Policy) (nodes []*facts.Node, blind blindness) {
	for i := range fleet.Nodes {
		node := &fleet.Nodes[i]
		reason := missing(check, node)
		stopped := !node.Reached || node.SSH != nil && node.SSH.Cause != ""
		switch unreached := stoppedBefore(check.ID, node) || reason != "" && stopped; {
		case unreached && node.SSH != nil && policy.SwitchesOff(rung(node.SSH)):
			blind.findings = append(blind.findings, notReached(node))
		case unreached:
			blind.unreached = append(blind.unreached, node.Name)
		case reason == "":
			nodes = append(nodes, node)
		default:
			blind.findings = append(blind.findings, unknown(node, reason))
		}
	}
	return nodes, blind
}

func everyNode(all []facts.Node) (nodes []*facts.Node) {
	for i := range all {
		nodes = append(nodes, &all[i])
	}
	return nodes
}

func headBlindness(check Check, head *facts.Node) blindness {
	if head == nil {
		return blindness{head: "the launching machine was not looked at"}
	}
	if reason := missing(check, head); reason != "" {
		return blindness{head: "launching machine: " + reason}
	}
	return blindness{}
}

// missing says why the node cannot be judged by the check, "" when it can.
func missing(check Check, node *facts.Node) string {
	for _, section := range check.Needs {
		if node.Has(section) {
			continue
		}
		if reason := node.Missing[section]; reason != "" {
			return fmt.Sprintf("%s: %s", section, reason)
		}
		return fmt.Sprintf("%s: not looked at", section)
	}
	return ""
}

// unsaid drops the unknowns an earlier check has already reported of the same
// nodes in the same words: a section that did not answer is one line, not one
// for each check that needs it. The checks' verdicts stay unknown.
func unsaid(said map[[2]string]bool, findings []Finding) []Finding {
	var fresh []Finding
	for _, f := range findings {
		repeats := f.Verdict == Unknown && len(f.Nodes) > 0
		for _, node := range f.Nodes {
			repeats = repeats && said[[2]string{node, f.Summary}]
		}
		if !repeats {
			fresh = append(fresh, f)
		}
	}
	for _, f := range fresh {
		for _, node := range f.Nodes {
			said[[2]string{node, f.Summary}] = true
		}
	}
	return fresh
}
