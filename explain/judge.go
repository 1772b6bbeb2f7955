// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
)

// verdict is an occurrence of a message and the message's meaning in this log.
type verdict struct {
	*occurrence
	kind   Kind
	cause  string
	beside Beside            // why the message has another meaning than its signature says
	apart  map[string]string // the values for Signature.Apart, if the message has that meaning
}

func (v verdict) failed() bool {
	return v.kind == Proof || v.kind == Symptom || v.kind == Echo || v.kind == Program
}

// judge decides which failures came first and which failures only followed.
func (c *Catalogue) judge(t *tally) Report {
	verdicts := t.verdicts()
	inOrder(verdicts)
	r := Report{
		Schema: Schema, Causes: []Finding{}, Consequences: []Finding{}, Noise: []Finding{},
		Files: len(t.sources), Lines: t.lines, Unread: t.unread, Empty: t.empty, Nameless: t.nameless,
	}
	roots, program := c.rootsOf(verdicts)
	for _, cause := range roots {
		r.Causes = append(r.Causes, c.finding(t, cause, verdicts))
	}
	blamed := slices.Clone(roots)
	own, noise, consequences := t.folded(), t.folded(), t.folded()
	for _, v := range verdicts {
		switch {
		case v.kind == Noise:
			noise.add(v)
		case v.kind == Program && program != nil && v.exception == program.exception && v.signature == program.signature:
			own.add(v) // the same failure of the program, on any rank
		case v.kind == Summary, v.kind == Program:
			consequences.add(v)
		case v.cause != "" && !slices.Contains(blamed, v.cause):
			blamed = append(blamed, v.cause)
			r.Consequences = append(r.Consequences, c.finding(t, v.cause, verdicts))
		}
	}
	if program != nil {
		r.Program = &own.findings()[0]
		r.Program.Launcher = program.launcher
	}
	if len(roots) == 0 && program == nil {
		r.Unexplained = t.unexplained(verdicts)
	}
	r.Noise = append(r.Noise, noise.findings()...)
	r.Consequences = append(r.Consequences, consequences.findings()...)
	r.Timeline = t.timeline(verdicts)
	r.Network = t.network.summary()
	switch {
	case len(r.Causes) > 0 || r.Program != nil:
		r.ExitCode = 1
	case len(r.Consequences) > 0 || r.Unexplained != nil || len(t.progress) == 0 || len(r.Unread) > 0:
		r.ExitCode = 2
	}
	return r
}

// verdicts returns all occurrences, each with the meaning that follows from the other messages.
func (t *tally) verdicts() []verdict {
	all := make([]verdict, 0, len(t.occurrences))
	for _, h := range t.occurrences {
		h.node = cmp.Or(h.node, t.homes.of(h.event))
		all = append(all, t.verdict(h))
	}
	t.together(all)
	ends := endsOf(all)
	for i := range all {
		v := &all[i]
		switch went := t.after(*v, ends); {
		case v.kind == Program && went == well, v.failed() && v.signature != nil && v.signature.Retried && went == well:
			v.kind, v.cause = Noise, ""
		case v.kind == Alarm && (went == well || went == wellForLong):
			v.kind = Context
		case v.kind == Program && went == wellForLong:
			v.kind = Summary
		case v.kind == Proof && v.signature.Retried && went == wellFirst:
			v.kind = Symptom
		case v.failed() && v.kind != Program && v.signature.Retried && (went == wellFirst || went == wellForLong):
			v.kind = Echo
		}
	}
	return all
}

// together adds to the verdicts what only the messages of all ranks together show about a
// collective.
func (t *tally) together(verdicts []verdict) {
	number, calls := t.apart()
	missing := t.missing(verdicts)
	for i := range verdicts {
		v := &verdicts[i]
		switch {
		case v.signature == nil || !v.failed():
		case calls != "" && v.signature.Apart != nil:
			v.kind, v.cause = Proof, v.signature.Apart.Cause
			v.apart = map[string]string{"number": number, "calls": calls}
		case missing != "" && v.values["missing"] == "":
			v.values["missing"] = missing
		}
	}
}

// verdict returns the meaning of a message, given the other messages of the logs.
func (t *tally) verdict(h *occurrence) verdict {
	s := h.signature
	if s == nil {
		return verdict{occurrence: h, kind: Program}
	}
	v := verdict{occurrence: h, kind: s.Kind, cause: s.Cause}
	for _, beside := range s.Beside {
		if beside.All && t.everywhere(s, beside.Any) || !beside.All && t.has(beside.Any) {
			v.cause, v.kind, v.beside = beside.Cause, cmp.Or(beside.Kind, s.Kind), beside
			break
		}
	}
	if s.Differs != "" && len(t.values[s]) < 2 {
		v.kind, v.cause = Context, ""
	}
	return v
}

// endsOf returns, for each log, the position of the last failure after which the program cannot
// continue.
func endsOf(verdicts []verdict) map[int]int {
	ends := map[int]int{}
	for _, v := range verdicts {
		if v.signature != nil && !v.signature.Retried && (v.failed() && v.kind != Program || v.kind == Summary) {
			ends[v.file] = max(ends[v.file], v.last)
		}
	}
	return ends
}

// outcome is what followed a message in the logs.
type outcome int

const (
	badly       outcome = iota // no progress, or progress only in other logs and a failure somewhere
	well                       // progress, and no failure after it
	wellFirst                  // progress, then a failure
	wellForLong                // so much progress that the message cannot have been the end, then a failure
)

func (t *tally) after(v verdict, ends map[int]int) outcome {
	own := t.progress[v.file]
	failed := ends[v.file] > v.last
	for file := range ends {
		failed = failed || file != v.file
	}
	// The separate logs of other ranks can show that the start succeeded. The time of that success
	// is unknown, so it does not excuse a rank that died.
	elsewhere := v.kind != Proof && v.kind != Program && v.kind != Alarm && (len(t.progress) > 1 || len(t.progress) == 1 && own == nil)
	switch {
	case !failed && (own.after(v.last) || elsewhere):
		return well
	case failed && own.lastedAfter(v.last):
		return wellForLong
	case failed && own.after(v.last):
		return wellFirst
	}
	return badly
}

// inOrder sorts failures by time, or by position if any failure has no time. Messages that are not
// failures come after all failures, so they do not disturb the order.
func inOrder(verdicts []verdict) {
	timed := !slices.ContainsFunc(verdicts, func(v verdict) bool { return v.failed() && !v.at.Known() })
	slices.SortStableFunc(verdicts, func(a, b verdict) int {
		switch {
		case a.failed() != b.failed():
			if a.failed() {
				return -1
			}
			return 1
		case timed && a.failed() && a.at.Earlier(b.at):
			return -1
		case timed && a.failed() && b.at.Earlier(a.at):
			return 1
		}
		return a.position - b.position
	})
}

// rootsOf returns the root causes in the order of the failures, and the program's own exception if
// that exception is the root. Messages that name their own cause are roots. Without such messages the
// first failure is the root. If there are only echoes, the cause of the echoes is the root. A root that
// another cause of the log explains gives way to that cause.
func (c *Catalogue) rootsOf(verdicts []verdict) (causes []string, program *occurrence) {
	var shown []string // the causes that the log shows, and not only as consequences
	for _, v := range verdicts {
		if v.kind == Proof && !slices.Contains(causes, v.cause) {
			causes = append(causes, v.cause)
		}
		if v.kind == Proof || v.kind == Symptom {
			shown = append(shown, v.cause)
		}
	}
	first := slices.IndexFunc(verdicts, func(v verdict) bool { return v.kind == Program || v.kind == Symptom })
	if first < 0 {
		first = slices.IndexFunc(verdicts, func(v verdict) bool { return v.kind == Echo })
	}
	switch {
	case len(causes) > 0 || first < 0:
	case verdicts[first].kind == Program:
		if cause := c.rootOf(string(Program), shown); cause != string(Program) {
			return []string{cause}, nil
		}
		return nil, verdicts[first].occurrence
	default:
		causes = []string{verdicts[first].cause}
	}
	var roots []string
	for _, cause := range causes {
		if root := c.rootOf(cause, shown); !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots, nil
}

// rootOf returns the cause that explains a cause, directly or by way of others, and that no shown
// cause explains. A test makes sure that causes do not explain each other in a circle.
func (c *Catalogue) rootOf(cause string, shown []string) string {
	for _, other := range shown {
		if slices.Contains(c.causes[other].Explains, cause) {
			return c.rootOf(other, shown)
		}
	}
	return cause
}
