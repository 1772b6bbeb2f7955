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
		want, against := "at most "+text.Duration(v.Policy.ClockSkew)+" apart", "the launching machine"
		if headIsOdd {
			f := checks.Finding{
				Summary: "the launching machine's clock is " + leadOrLag(-common, "most nodes"),
				Got:     leadOrLag(-common, "the nodes"),
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
					Summary: "the clock is " + leadOrLag(offset, against),
					Got:     leadOrLag(offset, against) + ", ± " + text.Duration(node.Clock.Uncertainty),
					Want:    want,
					Remedy:  []fix.Command{fix.On(remedy.SetClock)},
				})
			}
		}
		return findings
	},
}

// commonOffset returns the offset, in seconds, with which the nodes' clocks are compared. It is 0,
// the launching machine's clock, unless more than half of all clocks agree on another offset. The
// launching machine's clock is one of all clocks.
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

func leadOrLag(offset float64, other string) string {
	if offset < 0 {
		return text.Duration(-offset) + " behind " + other
	}
	return text.Duration(offset) + " ahead of " + other
}
