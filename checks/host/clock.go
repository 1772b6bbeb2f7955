// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"math"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/internal/text"
)

var ClockSkew = checks.Check{
	ID:       "clock-skew",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionClock},
	Run: func(v checks.View) (findings []checks.Finding) {
		common, headIsOdd := commonOffset(v)
		want, against := "within "+text.Duration(v.Policy.ClockSkew), "the launching machine"
		if headIsOdd {
			f := checks.Finding{
				Summary: "the clock of the launching machine is wrong: most nodes agree against it",
				Got:     leadOrLag(-common) + " of the nodes",
				Want:    want,
				Remedy:  []fix.Command{fix.Here(remedy.SetClock)},
			}
			if v.Head != nil {
				f.Nodes = []string{v.Head.Name}
			}
			findings, against = append(findings, f), "most nodes"
		}
		for _, node := range v.Nodes {
			if offset := node.Clock.Offset - common; isOff(offset, node, v.Policy) {
				findings = append(findings, checks.Finding{
					Nodes:   []string{node.Name},
					Summary: "the clock differs from that of " + against,
					Got:     leadOrLag(offset) + ", ± " + text.Duration(node.Clock.Uncertainty),
					Want:    want,
					Remedy:  []fix.Command{fix.On(remedy.SetClock)},
				})
			}
		}
		return findings
	},
}

// commonOffset is the offset in seconds to judge nodes against: 0, which is the
// launching machine's clock, unless more than half of the clocks, its own
// counted, stand together elsewhere.
func commonOffset(v checks.View) (offset float64, headIsOdd bool) {
	sorted := slices.SortedFunc(slices.Values(v.Nodes), func(a, b *facts.Node) int {
		return cmp.Compare(a.Clock.Offset, b.Clock.Offset)
	})
	median := sorted[len(sorted)/2]
	if !isOff(median.Clock.Offset, median, v.Policy) {
		return 0, false
	}
	together := 0
	for _, node := range v.Nodes {
		if !isOff(node.Clock.Offset-median.Clock.Offset, node, v.Policy) {
			together++
		}
	}
	if 2*together <= len(v.Nodes)+1 {
		return 0, false
	}
	return median.Clock.Offset, true
}

func isOff(offset float64, node *facts.Node, policy checks.Policy) bool {
	return math.Abs(offset) > policy.ClockSkew+node.Clock.Uncertainty
}

func leadOrLag(offset float64) string {
	if offset < 0 {
		return text.Duration(-offset) + " behind"
	}
	return text.Duration(offset) + " ahead"
}
