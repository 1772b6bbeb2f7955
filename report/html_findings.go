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
		all = append(all, toldFinding{Finding: f, Anchor: findingAnchor(i), Nodes: p.set(f.Nodes), Open: open})
	}
	for i, b := range p.blind(findings) {
		blind = append(blind, toldBlindness{Anchor: blindAnchor(i), Reason: b.reason, Nodes: b.nodes, Checks: b.checks})
	}
	return all, blind
}

// judged is one check of the run, with what is true when it passes.
type judged struct {
	checks.Outcome
	Title string
}

func allJudged(outcomes []checks.Outcome) (all []judged) {
	for _, o := range outcomes {
		all = append(all, judged{o, catalogued(o.Check).Title})
	}
	return all
}

// catalogued is a check of the catalogue, an empty one for what another version
// of preflight judged by.
func catalogued(id string) checks.Check {
	for _, check := range checks.Catalogue {
		if check.ID == id {
			return check
		}
	}
	return checks.Check{}
}
