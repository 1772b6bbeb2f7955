package checks

import "slices"

// evaluate judges with the default policy.
func evaluate(l launchable, catalogue ...Check) Report {
	return Evaluate(catalogue, l.Fleet, l.Launch, DefaultPolicy())
}

// alone judges by one check, which finds all that it depends on; the report is of it only.
func alone(check Check, l launchable, policy Policy) Report {
	return aloneAmong(Catalogue, check, l, policy)
}

func aloneAmong(catalogue []Check, check Check, l launchable, policy Policy) Report {
	if check.ID == DriftID {
		catalogue = nil // it asks them for words of a fix alone
	}
	r := Evaluate(append([]Check{check}, dependencies(catalogue, check)...), l.Fleet, l.Launch, policy)
	r.Checks = r.Checks[:1]
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Check != check.ID })
	r.Waived = slices.DeleteFunc(r.Waived, func(w Waived) bool { return w.Check != check.ID })
	r.Conclude(policy.Strict)
	return r
}

// dependencies are the checks that one depends on, and what they depend on.
func dependencies(catalogue []Check, check Check) (all []Check) {
	for _, id := range check.DependsOn {
		i := slices.IndexFunc(catalogue, func(c Check) bool { return c.ID == id })
		if i < 0 || slices.ContainsFunc(all, func(c Check) bool { return c.ID == id }) {
			continue
		}
		all = append(all, catalogue[i])
		for _, c := range dependencies(catalogue, catalogue[i]) {
			if !slices.ContainsFunc(all, func(other Check) bool { return other.ID == c.ID }) {
				all = append(all, c)
			}
		}
	}
	return all
}
