package checks

import (
	"fmt"
	"regexp"
	"slices"

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

// everyFact is the fact of a waiver that is to cover whatever such a check finds.
const everyFact = "*"

// Valid says why a waiver covers nothing, or more than anybody can have meant: there is
// no such fact ([UnknownFactError]), or it is of a check whose findings are of one fact
// each and does not say of which. A promise about an MTU must not cover another driver.
func (w Waiver) Valid() error {
	ofFacts := w.Check == expectation.ID || w.Check == drift.ID
	switch {
	case w.Check == policyInForce.ID:
		return fmt.Errorf("%s watches over the waivers, so none covers it: repair what it finds", w.Check)
	case !ofFacts && w.Fact != "":
		return fmt.Errorf("findings of %s are not of single facts: those of %s and %s are", w.Check, expectation.ID, drift.ID)
	case !ofFacts, w.Fact == everyFact:
		return nil
	case w.Fact == "":
		return fmt.Errorf("%s finds many things, and a waiver of it says which: add fact: shm.size, or fact: \"%s\" for whatever it finds", w.Check, everyFact)
	}
	path := inFull(w.Fact)
	_, err := factAt(path)
	if err != nil && w.Check == drift.ID && isEntry(path) {
		return nil // drift tells of an interface that has gone, not of each of its facts
	}
	return err
}

// expired is whether its last day is over. Days as text are in order.
func (w Waiver) expired(today string) bool { return today > w.Until }

// isAbout is whether it is in force for a finding, on whichever nodes.
func (w *waiver) isAbout(f Finding, today string) bool {
	other := func(fact string) bool { return !w.fact.MatchString(inFull(fact)) }
	return w.Check == f.Check && !w.expired(today) && (w.Fact == "" || !other(f.Fact) && !slices.ContainsFunc(f.Facts, other))
}

// waives is whether what a check found on a node will not count.
func (w *waiving) waives(f Finding, node string) bool {
	return w.today != "" && slices.ContainsFunc(w.waivers, func(one waiver) bool { return one.isAbout(f, w.today) && one.covers(node) })
}

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
	if !w.isAbout(*f, today) {
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
