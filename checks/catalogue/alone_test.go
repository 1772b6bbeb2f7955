package catalogue

import (
	"slices"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/fleettest"
)

// judged judges with the default policy.
func judged(l fleettest.Fleet, catalogue ...checks.Check) checks.Report {
	return engine.Evaluate(catalogue, l.Fleet, l.Launch, checks.DefaultPolicy())
}

// alone judges by one check, which finds all that it depends on; the report is of it only.
func alone(check checks.Check, l fleettest.Fleet, policy checks.Policy) checks.Report {
	return aloneAmong(Catalogue, check, l, policy)
}

func aloneAmong(catalogue []checks.Check, check checks.Check, l fleettest.Fleet, policy checks.Policy) checks.Report {
	if check.ID == checks.DriftID {
		catalogue = nil // it asks them for words of a fix alone
	}
	r := engine.Evaluate(append([]checks.Check{check}, dependencies(catalogue, check)...), l.Fleet, l.Launch, policy)
	r.Checks = r.Checks[:1]
	r.Findings = slices.DeleteFunc(r.Findings, func(f checks.Finding) bool { return f.Check != check.ID })
	r.Waived = slices.DeleteFunc(r.Waived, func(w checks.Waived) bool { return w.Check != check.ID })
	r.Conclude(policy.Strict)
	return r
}

// dependencies are the checks that one depends on, and what they depend on.
func dependencies(catalogue []checks.Check, check checks.Check) (all []checks.Check) {
	for _, id := range check.DependsOn {
		i := slices.IndexFunc(catalogue, func(c checks.Check) bool { return c.ID == id })
		if i < 0 || slices.ContainsFunc(all, func(c checks.Check) bool { return c.ID == id }) {
			continue
		}
		all = append(all, catalogue[i])
		for _, c := range dependencies(catalogue, catalogue[i]) {
			if !slices.ContainsFunc(all, func(other checks.Check) bool { return other.ID == c.ID }) {
				all = append(all, c)
			}
		}
	}
	return all
}
