// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/facts"
)

var Node = checks.Check{
	ID:        nodeID,
	Severity:  checks.Error,
	Needs:     needs,
	DependsOn: append(looking(), computesID),
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := took(view, nodeID)
		several := false
		for _, node := range nodes {
			if len(node.Smoke.Ranks) < 2 {
				continue
			}
			several = true
			findings = append(findings, checks.OfNode(node, unreduced(view, node)...)...)
		}
		if !several && len(nodes) == len(view.Nodes) && len(nodes) > 0 {
			return checks.Skipped("each node has one rank: see collective")
		}
		return findings
	},
}

func unreduced(view checks.View, node *facts.Node) []checks.Finding {
	i := slices.IndexFunc(node.Smoke.Trials, func(trial facts.SmokeTrial) bool { return trial.Stage == facts.SmokeNode })
	switch {
	case i < 0 && isAlone(view, node):
		return []checks.Finding{leftTo(node, computesID)}
	case i < 0:
		return []checks.Finding{timeUp(node, "all ranks of the node together")}
	case node.Smoke.Trials[i].Passed:
		return nil
	}
	trial := node.Smoke.Trials[i]
	if areAbsent(trial.Failures) {
		return []checks.Finding{wayOut(view, node, trial.Failures)}
	}
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Summary:  "all-reduce among the ranks of the node fails",
		Got:      fmt.Sprintf("%d ranks over %s: %s", trial.Ranks, node.Smoke.Backend, allHappened(node, trial.Failures)),
		Want:     "the right sum on every rank",
		WouldSee: wouldSee(trial.Failures, ""),
	}
	return []checks.Finding{put(view, f, node, trial.Failures, ofItself(trial.Failures))}
}

// isAlone reports whether a finding of gpu-computes prevents all other tests on a node.
func isAlone(view checks.View, node *facts.Node) bool {
	return view.Found(computesID, checks.Fail, checks.Unknown)[node.Name]
}
