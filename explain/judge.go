package explain

import (
	"cmp"
	"slices"
)

// verdict is a hearing and what it means in this log.
type verdict struct {
	*hearing
	kind  Kind
	cause string
}

// judge decides what came first and what followed.
func (c *Catalogue) judge(t *tally) Report {
	verdicts := c.verdicts(t)
	order := chronological(verdicts)
	slices.SortStableFunc(verdicts, order)

	r := Report{Schema: Schema, Causes: []Finding{}, Consequences: []Finding{}, Noise: []Finding{}, Files: len(t.sources), Lines: t.lines}
	roots, program := rootsOf(verdicts)
	if program != nil {
		e := t.evidence(program.event)
		r.Program = &e
	}
	for _, cause := range roots {
		r.Causes = append(r.Causes, c.finding(t, cause, verdicts))
	}
	told := slices.Clone(roots)
	for _, v := range verdicts {
		switch {
		case v.kind == Noise:
			r.Noise = t.fold(r.Noise, v)
		case v.kind == Summary, v.kind == Program && v.hearing != program:
			r.Consequences = t.fold(r.Consequences, v)
		case v.cause != "" && !slices.Contains(told, v.cause):
			told = append(told, v.cause)
			r.Consequences = append(r.Consequences, c.finding(t, v.cause, verdicts))
		}
	}
	r.Timeline = t.timeline(verdicts)
	r.Network = t.network.summary()
	switch {
	case len(r.Causes) > 0 || r.Program != nil:
		r.ExitCode = 1
	case len(r.Consequences) > 0 || r.Lines == 0:
		r.ExitCode = 2
	}
	return r
}

// verdicts are all hearings with what they mean beside the others.
func (c *Catalogue) verdicts(t *tally) []verdict {
	var all []verdict
	for _, h := range t.hearings {
		s := h.signature
		if s == nil {
			all = append(all, verdict{h, Program, ""})
			continue
		}
		v := verdict{h, s.Kind, s.Cause}
		for _, beside := range s.Beside {
			if t.heard(beside.Any) {
				v.cause, v.kind = beside.Cause, cmp.Or(beside.Kind, s.Kind)
				break
			}
		}
		if s.Differs != "" && len(t.values[s]) < 2 {
			v.kind, v.cause = Context, ""
		}
		if s.Retried && t.recovered(h) {
			v.kind, v.cause = Noise, ""
		}
		all = append(all, v)
	}
	return all
}

// recovered is whether the log of a message goes on to say that all is well.
func (t *tally) recovered(h *hearing) bool {
	return slices.ContainsFunc(t.hearings, func(later *hearing) bool {
		return later.signature != nil && later.signature.Kind == Success && later.file == h.file && later.last > h.last
	})
}

// chronological orders by the time told, or where any failure tells none, by place.
func chronological(verdicts []verdict) func(a, b verdict) int {
	timed := !slices.ContainsFunc(verdicts, func(v verdict) bool {
		return (v.cause != "" || v.kind == Program) && !v.at.known()
	})
	return func(a, b verdict) int {
		if timed && a.at.known() && b.at.known() {
			switch {
			case a.at.earlier(b.at):
				return -1
			case b.at.earlier(a.at):
				return 1
			}
		}
		return a.position - b.position
	}
}

// rootsOf are the causes at the bottom, the first one first, and the program's own
// exception where that was it. What names its own cause is at the bottom wherever
// it stands; else what failed first; else, where there are only echoes, their cause.
func rootsOf(verdicts []verdict) (causes []string, program *hearing) {
	for _, v := range verdicts {
		if v.kind == Proof && !slices.Contains(causes, v.cause) {
			causes = append(causes, v.cause)
		}
	}
	if len(causes) > 0 {
		return causes, nil
	}
	for _, v := range verdicts {
		switch v.kind {
		case Program:
			return nil, v.hearing
		case Symptom:
			return []string{v.cause}, nil
		}
	}
	for _, v := range verdicts {
		if v.kind == Echo {
			return []string{v.cause}, nil
		}
	}
	return nil, nil
}
