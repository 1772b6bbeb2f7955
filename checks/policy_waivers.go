package checks

import (
	"fmt"
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

// everyFact is the fact of a waiver that is to cover whatever such a check finds.
const everyFact = "*"

// ValidWaiver says why a waiver covers nothing, or more than anybody can have meant: there is
// no such fact ([UnknownFactError]), or it is of a check whose findings are of one fact
// each and does not say of which. A promise about an MTU must not cover another driver.
func ValidWaiver(w Waiver) error {
	ofFacts := w.Check == ExpectationID || w.Check == DriftID
	switch {
	case w.Check == PolicyID:
		return fmt.Errorf("%s watches over the waivers, so none covers it: repair what it finds", w.Check)
	case !ofFacts && w.Fact != "":
		return fmt.Errorf("findings of %s are not of single facts: those of %s and %s are", w.Check, ExpectationID, DriftID)
	case !ofFacts, w.Fact == everyFact:
		return nil
	case w.Fact == "":
		return fmt.Errorf("%s finds many things, and a waiver of it says which: add fact: shm.size, or fact: \"%s\" for whatever it finds", w.Check, everyFact)
	}
	path := inFull(w.Fact)
	if isFact(path) || w.Check == DriftID && isOfDrift(path) {
		return nil
	}
	return unknownFact(path)
}

// expired is whether its last day is over. Days as text are in order.
func (w waiver) expired(today string) bool { return today > w.Until }

// covers is whether it is about a node; "" is the launching machine.
func (w waiver) covers(node string) bool {
	return len(w.Nodes) == 0 || slices.Contains(w.Nodes, node) || slices.Contains(w.Nodes, hostfile.Bare(node))
}
