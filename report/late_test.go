// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"preflight/checks"
	"preflight/facts"
)

// TestLateNodesAreTold: who came when the drills were under way is named with the longest time.
func TestLateNodesAreTold(t *testing.T) {
	r := checks.Report{Verdict: checks.Pass}
	r.Nodes = []facts.Node{{Name: "w1"}, {Name: "w2", Late: 2.5}, {Name: "w3", Late: 6}}
	const want = "w[2-3] came up to 6 s after the drills had begun"
	if got := WordsOf(r).Conclusion(); !strings.Contains(got, want) {
		t.Errorf("%q, want %q in it", got, want)
	}
	r.Nodes = r.Nodes[:1]
	if got := WordsOf(r).Conclusion(); got != "ready to launch" {
		t.Errorf("nobody is late: %q", got)
	}
}
