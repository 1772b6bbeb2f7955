package checks

import (
	"cmp"
	"slices"

	"preflight/facts"
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
	view := View{All: fleet.Nodes, Launch: prediction, Policy: policy, NotTried: fleet.NotTried, found: map[string]map[string]bool{}, rankEnvs: map[*facts.Node]map[string]facts.Setting{}, networks: map[*facts.Node]launch.Network{}}
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
		view.found[check.ID] = concernedBy(findings)
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

// concernedBy are the nodes of findings that count.
func concernedBy(findings []Finding) map[string]bool {
	nodes := map[string]bool{}
	for _, f := range findings {
		for _, node := range f.Nodes {
			nodes[node] = nodes[node] || f.Verdict == Fail || f.Verdict == Warn
		}
	}
	return nodes
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
		findings[i].Verdict = view.Policy.weight(check.ID, check.Severity, findings[i].Verdict)
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
