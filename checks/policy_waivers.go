package checks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// Waiver says that a defect is known: what the check finds on these nodes is shown
// and does not count, up to and including a day.
type Waiver struct {
	Check  string
	Nodes  []string // with or without a user; none means wherever it is found, the launching machine included
	Fact   string   // of which fact a finding is waived, "*" in it as in an [Expectation]; "" for any
	Reason string
	Owner  string
	Until  string // "2026-12-31"
	At     string // where it is stated, "preflight.yaml:31"
}

// Waived is a finding that does not count, and why.
type Waived struct {
	Finding
	Reason string `json:"reason"`
	Owner  string `json:"owner,omitempty"`
	Until  string `json:"until"`
	At     string `json:"at,omitempty"` // where the waiver is stated, "preflight.yaml:31"
}

// AllWaived is the reason of a skip where all that a check found is waived.
const AllWaived = "all that it found is waived"

// weighs is the severity of a check under the policy.
func (p Policy) weighs(check Check) Severity {
	if severity, stated := p.Severities[check.ID]; stated {
		return severity
	}
	return check.Severity
}

// reweigh gives a finding the severity that the policy states for its check.
func (p Policy) reweigh(f *Finding) {
	severity, stated := p.Severities[f.Check]
	switch {
	case !stated || f.Verdict != Fail && f.Verdict != Warn:
	case severity == Warning:
		f.Verdict = Warn
	default:
		f.Verdict = Fail
	}
}

// waiving is what the waivers of a policy do to the findings of a run.
type waiving struct {
	today   string
	waivers []waiver
	told    map[string]bool // checks that judged all there is, by ID
}

// waiver is one and the findings it took.
type waiver struct {
	Waiver
	fact  *regexp.Regexp
	taken []Finding
}

func newWaiving(policy Policy) *waiving {
	w := &waiving{today: policy.Today, told: map[string]bool{}}
	for _, one := range policy.Waivers {
		w.waivers = append(w.waivers, waiver{Waiver: one, fact: pathPattern(inFull(one.Fact), ".*")})
	}
	return w
}

// Valid says why a waiver can never cover anything: there is no such fact
// ([UnknownFactError]), or the check's findings are not of single facts.
func (w Waiver) Valid() error {
	switch {
	case w.Fact == "":
		return nil
	case w.Check != expectation.ID && w.Check != drift.ID:
		return fmt.Errorf("findings of %s are not of single facts: those of %s and %s are", w.Check, expectation.ID, drift.ID)
	case w.Check == expectation.ID:
		_, err := factAt(inFull(w.Fact))
		return err
	}
	return nil
}

// expired is whether its last day is over. Days as text are in order.
func (w Waiver) expired(today string) bool { return today > w.Until }

func (w Waiver) covers(node string) bool {
	return len(w.Nodes) == 0 || slices.Contains(w.Nodes, node) || slices.Contains(w.Nodes, hostfile.Bare(node))
}

// part takes what is waived out of a check's findings, node by node, and says
// whether anything was. Where the date is not known nothing is.
func (w *waiving) part(findings []Finding) (left []Finding, waived bool) {
	if w.today == "" || len(w.waivers) == 0 {
		return findings, false
	}
	for _, f := range findings {
		if f.Verdict != Fail && f.Verdict != Warn {
			left = append(left, f)
			continue
		}
		had := len(f.Nodes)
		for i := range w.waivers {
			taken, all := w.waivers[i].take(&f, w.today)
			waived = waived || taken
			if all {
				had = -1
				break
			}
		}
		if had >= 0 {
			left = append(left, f)
		}
	}
	return left, waived
}

// take moves the nodes of a finding that the waiver covers to what it has taken.
func (w *waiver) take(f *Finding, today string) (taken, all bool) {
	if w.Check != f.Check || w.Fact != "" && !w.fact.MatchString(inFull(f.Fact)) || w.expired(today) {
		return false, false
	}
	if len(f.Nodes) == 0 { // the launching machine's
		if len(w.Nodes) > 0 {
			return false, false
		}
		w.taken = append(w.taken, *f)
		return true, true
	}
	var covered, others []string
	for _, node := range f.Nodes {
		if w.covers(node) {
			covered = append(covered, node)
		} else {
			others = append(others, node)
		}
	}
	if covered == nil {
		return false, false
	}
	waived := *f
	waived.Nodes, f.Nodes = covered, others
	w.taken = append(w.taken, waived)
	return true, others == nil
}

// note remembers whether a check judged all there is, so that a waiver which took
// nothing is not needed.
func (w *waiving) note(check Check, verdict Verdict, findings []Finding, blind blindness) {
	unclear := slices.ContainsFunc(findings, func(f Finding) bool { return f.Verdict == Unknown })
	w.told[check.ID] = verdict != Skip && !unclear && blind.head == "" && len(blind.unreached) == 0
}

// waived are the findings that do not count, in the order of the waivers.
func (w *waiving) waived(r roster) (all []Waived) {
	for _, one := range w.waivers {
		for _, f := range r.fold(one.taken) {
			all = append(all, Waived{Finding: f, Reason: one.Reason, Owner: one.Owner, Until: one.Until, At: one.At})
		}
	}
	return all
}

var policyInForce = Check{
	ID:         "policy",
	Title:      "every waiver of the policy is in force, and needed",
	Severity:   Error,
	FromPolicy: true,
	Doc: "Looks at the waivers: list of preflight.yaml. A waived finding is shown and does not count, until its date is over: then it counts again, and the waiver itself fails the run, so that " +
		"nobody launches on a promise that has run out. A waiver whose check found nothing that it covers is warned of, where everything that the check looks at was seen.",
	WouldSee: "the defect that was waived for a time, on a day when nobody remembers it",
	Run:      judgeWaivers,
}

func judgeWaivers(view View) []Finding {
	var findings []Finding
	switch {
	case len(view.Policy.Waivers) == 0 && view.Policy.File != "":
		return skip("the policy waives nothing")
	case len(view.Policy.Waivers) == 0:
		return skip(noPolicy)
	case view.Policy.Today == "":
		return []Finding{{Verdict: Unknown, Summary: "the date of today is not known, so no waiver was applied"}}
	}
	for _, w := range view.waiving.waivers {
		switch {
		case w.expired(view.Policy.Today):
			findings = append(findings, Finding{
				At:      w.At,
				Summary: fmt.Sprintf("the waiver of %s ended on %s, and what it covered counts again", w.whose(), w.Until),
				Got:     w.said(),
				Want:    "a date that is not over (today is " + view.Policy.Today + "), or no waiver",
				Fix:     []string{"repair what it covered, then take the waiver out of " + w.At, "or agree on a new date: until: in " + w.At},
			})
		case w.taken == nil && view.waiving.told[w.Check] && w.concernsAny(view.All):
			findings = append(findings, Finding{
				Verdict: Warn,
				At:      w.At,
				Summary: fmt.Sprintf("the waiver of %s covers nothing any more: %s finds nothing there", w.whose(), w.Check),
				Got:     w.said(),
				Fix:     []string{"take the waiver out of " + w.At + ", so that the defect is seen when it comes back"},
			})
		}
	}
	return findings
}

func (w Waiver) concernsAny(nodes []facts.Node) bool {
	return slices.ContainsFunc(nodes, func(n facts.Node) bool { return w.covers(n.Name) })
}

// whose is what it waives and where.
func (w Waiver) whose() string {
	text := w.Check
	if w.Fact != "" {
		text += " for " + w.Fact
	}
	if len(w.Nodes) > 0 {
		text += " on " + hostfile.Fold(w.Nodes)
	}
	return text
}

// said is who gave it and why.
func (w Waiver) said() string {
	parts := []string{w.Reason}
	if w.Owner != "" {
		parts = append(parts, "owner "+w.Owner)
	}
	return strings.Join(append(parts, "stated at "+w.At), ", ")
}
