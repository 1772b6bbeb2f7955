package checks

// heldOf are the expectations of an evaluation, none in a View that is not of one.
func heldOf(view View) *held { return Remember(view, heldKey{}, func() *held { return &held{} }) }

// of are the expectations of a fact, as a check that weighs so much compares nodes by it;
// none where they are switched off. Who misses one is left out of the comparison, unless that
// will not count, or not as much as what the check may find: a launch that will fail must not
// pass for one that was warned of, or whose defect is waived.
func (h *held) of(fact string, policy Policy, weighs Severity, waived func(Finding, string) bool) (stated []Stated) {
	if policy.SwitchesOff(ExpectationID) {
		return nil
	}
	for i := range h.statements {
		s := &h.statements[i]
		if !s.path.MatchString(fact) {
			continue
		}
		one := Stated{Of: s.names, Allows: s.takes, Missed: map[string]bool{}}
		stated = append(stated, one)
		if s.weight(policy) == Warn && weighs == Error {
			continue
		}
		for _, m := range s.missed {
			if !waived(Finding{Check: ExpectationID, Fact: m.fact}, m.node) {
				one.Missed[m.node] = true
			}
		}
	}
	return stated
}
