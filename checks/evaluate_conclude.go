package checks

import (
	"slices"
	"strings"

	"preflight/hostfile"
)

// Conclude sets the verdict and the exit code from the checks and findings: 1
// when something failed (under strict also when something is warned of), 2 when
// something could not be told, 1 before 2. A run in which every check was
// skipped told nothing.
func (r *Report) Conclude(strict bool) {
	r.Strict = strict
	met := map[Verdict]bool{}
	for _, outcome := range r.Checks {
		met[outcome.Verdict] = true
	}
	for _, finding := range r.Findings { // a warning may hide behind its check's unknown
		met[finding.Verdict] = true
	}
	switch {
	case met[Fail], met[Warn] && strict:
		r.Verdict, r.ExitCode = Fail, 1
	case met[Unknown], r.Interrupted, !met[Pass] && !met[Warn]:
		r.Verdict, r.ExitCode = Unknown, 2
	case met[Warn]:
		r.Verdict, r.ExitCode = Warn, 0
	default:
		r.Verdict, r.ExitCode = Pass, 0
	}
}

// weight orders verdicts, the one that matters most first.
func weight(v Verdict) int {
	return slices.Index([]Verdict{Fail, Unknown, Warn, Pass, Skip}, v)
}

// conclude is the verdict of one check and, for a skip or an unknown, why; for a pass
// what it does not hold for. A skip needs every node: what was not seen there might have
// applied.
func conclude(findings []Finding, sight Sight) (Verdict, string) {
	verdict, skipped, but := Pass, "", ""
	var reasons []string
	for _, f := range findings {
		switch f.Verdict {
		case Skip:
			skipped = f.Summary
			continue
		case Pass:
			but = f.Summary
			continue
		}
		if weight(f.Verdict) < weight(verdict) {
			verdict = f.Verdict
		}
		if f.Verdict == Unknown && !slices.Contains(reasons, f.Summary) {
			reasons = append(reasons, f.Summary)
		}
	}
	if sight.Head != "" {
		reasons = append(reasons, sight.Head)
	}
	if len(sight.Unreached) > 0 {
		reasons = append(reasons, hostfile.Fold(sight.Unreached)+" not reached")
	}
	if len(sight.Nodes) == 0 && len(reasons) == 0 {
		reasons = append(reasons, "there is no node to look at")
	}
	if len(reasons) > 0 && weight(Unknown) < weight(verdict) {
		verdict = Unknown
	}
	switch {
	case verdict == Unknown:
		if but != "" {
			reasons = append(reasons, but)
		}
		return Unknown, strings.Join(reasons, "; ")
	case verdict == Pass && skipped != "":
		return Skip, skipped
	case verdict == Pass:
		return Pass, but
	}
	return verdict, ""
}
