package report

import (
	"fmt"

	"preflight/checks"
)

// tally is how many findings have one verdict.
type tally struct {
	Verdict checks.Verdict
	Words   string // "7 problems"
}

func tallied(told []toldFinding, blind int) (all []tally) {
	count := map[checks.Verdict]int{checks.Unknown: blind}
	for _, f := range told {
		count[f.Verdict]++
	}
	for _, v := range []struct {
		verdict checks.Verdict
		noun    string
	}{{checks.Fail, "problem"}, {checks.Unknown, "blind spot"}, {checks.Warn, "warning"}} {
		if n := count[v.verdict]; n > 0 {
			all = append(all, tally{v.verdict, plural(n, v.noun)})
		}
	}
	return all
}

// mostOpen is how many findings are laid open when the page is: further ones
// that do not fail are a line each.
const mostOpen = 12

// toldFinding is one finding on the page.
type toldFinding struct {
	checks.Finding
	Anchor string
	Nodes  set
	Open   bool
}

// toldBlindness is checks that could not look, for one reason.
type toldBlindness struct {
	Anchor string
	Reason string
	Nodes  string
	Checks []string
}

// findingAnchor and blindAnchor are where on the page the i-th finding and the
// i-th block of checks that could not look are.
func findingAnchor(i int) string { return fmt.Sprintf("finding-%d", i+1) }
func blindAnchor(i int) string   { return fmt.Sprintf("blind-%d", i+1) }

// told is what the page says of the findings, and of those that could not look.
func told(p *page, findings []checks.Finding) (all []toldFinding, blind []toldBlindness) {
	for i, f := range findings {
		if f.Verdict == checks.Unknown {
			continue
		}
		open := f.Verdict == checks.Fail || len(findings) <= mostOpen
		all = append(all, toldFinding{Finding: f, Anchor: findingAnchor(i), Nodes: p.whose(f), Open: open})
	}
	for i, b := range p.blind(findings) {
		blind = append(blind, toldBlindness{Anchor: blindAnchor(i), Reason: b.reason, Nodes: b.nodes, Checks: b.checks})
	}
	return all, blind
}

// policyCheck judges the policy, and no node.
const policyCheck = "policy"

// whose is the nodes that a finding is about, nobody where it is the policy that is
// at fault.
func (p *page) whose(f checks.Finding) set {
	if len(f.Nodes) == 0 && f.Check == policyCheck {
		return set{}
	}
	return p.set(f.Nodes)
}

// toldWaiver is a finding that the policy has told not to count.
type toldWaiver struct {
	checks.Waived
	Anchor string
	Nodes  set
}

// waiverAnchor is where on the page the i-th waived finding is.
func waiverAnchor(i int) string { return fmt.Sprintf("waived-%d", i+1) }

func toldWaivers(p *page, waived []checks.Waived) (all []toldWaiver) {
	for i, w := range waived {
		all = append(all, toldWaiver{Waived: w, Anchor: waiverAnchor(i), Nodes: p.whose(w.Finding)})
	}
	return all
}

// judged is one check of the run, with what is true when it passes.
type judged struct {
	checks.Outcome
	Title string
}

func allJudged(outcomes []checks.Outcome) (all []judged) {
	for _, o := range outcomes {
		all = append(all, judged{o, titleOf(o.Check)})
	}
	return all
}

// titleOf is what is true when a check passes, "" for one that another version of
// preflight judged by.
func titleOf(id string) string {
	check, _ := checks.Lookup(id)
	return check.Title
}
