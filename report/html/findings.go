// SPDX-License-Identifier: Apache-2.0

package html

import (
	"fmt"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/internal/text"
	"preflight/report"
)

type tally struct {
	Verdict checks.Verdict
	Words   string // "7 problems"
}

func tallied(w report.Words, unknowns []unknown) (all []tally) {
	count := w.Counted()
	count[checks.Unknown] = len(unknowns)
	for _, v := range []struct {
		verdict checks.Verdict
		noun    string
	}{{checks.Fail, "problem"}, {checks.Unknown, "unknown"}, {checks.Warn, "warning"}} {
		if n := count[v.verdict]; n > 0 {
			all = append(all, tally{v.verdict, text.Plural(n, v.noun)})
		}
	}
	return all
}

// mostOpen is how many findings are laid open when the page is: further ones
// that do not fail are a line each.
const mostOpen = 12

type finding struct {
	checks.Finding
	Anchor string
	Nodes  set
	Open   bool

	// Header and Rows are the table of what has changed, nil of what tells of no change.
	Header []string
	Rows   [][]string
}

// unknown is checks that could not look, for one reason.
type unknown struct {
	report.Unknown
	Anchor string
}

// findingAnchor, unknownAnchor and waiverAnchor are where on the page the i-th finding, the
// i-th block of checks that could not look and the i-th waived finding are.
func findingAnchor(i int) string { return fmt.Sprintf("finding-%d", i+1) }

func unknownAnchor(i int) string { return fmt.Sprintf("unknown-%d", i+1) }

func waiverAnchor(i int) string { return fmt.Sprintf("waived-%d", i+1) }

// shown is what the page says of the findings, and of those that could not look.
func shown(w report.Words, findings []checks.Finding) (all []finding, unknowns []unknown) {
	drift, at := w.Drift(false)
	for i, f := range findings {
		one := finding{Finding: f, Anchor: findingAnchor(i)}
		switch {
		case i == at:
			one.Finding = drift.Finding
			one.Header, one.Rows = w.ChangeTable(drift.Rows)
		case f.Verdict == checks.Unknown, report.HasChanges(f):
			continue
		}
		one.Nodes, one.Open = nodesOf(w, one.Finding), one.Verdict == checks.Fail || len(findings) <= mostOpen
		all = append(all, one)
	}
	for i, u := range w.Unknowns() {
		unknowns = append(unknowns, unknown{u, unknownAnchor(i)})
	}
	return all, unknowns
}

// policyCheck judges the policy, and no node.
const policyCheck = "policy"

// nodesOf is the nodes that a finding is about, nobody where it is the policy that is
// at fault.
func nodesOf(w report.Words, f checks.Finding) set {
	if len(f.Nodes) == 0 && f.Check == policyCheck {
		return set{}
	}
	return setOf(w, f.Nodes)
}

type waiver struct {
	checks.Waived
	Anchor string
	Nodes  set
}

// titleOf is what is true when a check passes, "" for one that another version of
// preflight judged by.
func titleOf(id string) string {
	check, _ := catalogue.Lookup(id)
	return check.Text().Title
}
