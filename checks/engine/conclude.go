package engine

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/hostfile"
)

// conclude is the verdict of one check and, for a skip or an unknown, why; for a pass
// what it does not hold for. A skip needs every node: what was not seen there might have
// applied.
func conclude(findings []checks.Finding, sight checks.Sight) (checks.Verdict, string) {
	verdict, skipped, but := checks.Pass, "", ""
	var reasons []string
	for _, f := range findings {
		switch f.Verdict {
		case checks.Skip:
			skipped = f.Summary
			continue
		case checks.Pass:
			but = f.Summary
			continue
		}
		if checks.Gravity(f.Verdict) < checks.Gravity(verdict) {
			verdict = f.Verdict
		}
		if f.Verdict == checks.Unknown && !slices.Contains(reasons, f.Summary) {
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
	if len(reasons) > 0 && checks.Gravity(checks.Unknown) < checks.Gravity(verdict) {
		verdict = checks.Unknown
	}
	switch {
	case verdict == checks.Unknown:
		if but != "" {
			reasons = append(reasons, but)
		}
		return checks.Unknown, strings.Join(reasons, "; ")
	case verdict == checks.Pass && skipped != "":
		return checks.Skip, skipped
	case verdict == checks.Pass:
		return checks.Pass, but
	}
	return verdict, ""
}
