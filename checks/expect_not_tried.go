package checks

import "strings"

// demanded is whether the policy insists on a look: it names the nodes, or says that
// missing it is an error. What is stated of all nodes alike may be of GPUs, and the launch
// of processors.
func (s *statement) demanded() bool { return len(s.only) > 0 || s.Severity == Error }

// notJudged says what was stated of this fleet and nobody was to look at, none where that
// is nothing. What the policy insists on is an unknown of its own.
func notJudged(statements []statement) []Finding {
	var reasons []string
	left := map[string][]string{} // facts by why nobody looked
	for i := range statements {
		s := &statements[i]
		if s.notTried == "" || s.demanded() {
			continue
		}
		if left[s.notTried] == nil {
			reasons = append(reasons, s.notTried)
		}
		left[s.notTried] = append(left[s.notTried], s.Fact)
	}
	if reasons == nil {
		return nil
	}
	var parts []string
	for _, reason := range reasons {
		parts = append(parts, strings.Join(left[reason], ", ")+" ("+reason+")")
	}
	return []Finding{{Verdict: Pass, Summary: "not judged: " + strings.Join(parts, ", ")}}
}
