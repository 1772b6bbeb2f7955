// SPDX-License-Identifier: Apache-2.0

// Package smoke checks the results of the smoke test: what the ranks computed, and how they
// communicated before the launch.
//
// It does not treat a slow result as a wrong one. It blames a node only if the trials proved that
// the node is at fault.
package smoke

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/facts"
	"preflight/hostfile"
)

var Collective = checks.Check{
	ID:        collectiveID,
	Severity:  checks.Error,
	Needs:     needs,
	DependsOn: append(looking(), computesID, nodeID),
	Run: func(view checks.View) []checks.Finding {
		nodes, findings := took(view, collectiveID)
		if len(view.All) < 2 {
			return checks.Skipped("a single node: see collective-node")
		}
		told := map[string]bool{} // groups of nodes that already have a finding
		for _, node := range nodes {
			findings = append(findings, apart(view, node, nodes, told)...)
		}
		return findings
	},
}

// apart returns the findings for a node that did not succeed together with all other nodes.
func apart(view checks.View, node *facts.Node, nodes []*facts.Node, told map[string]bool) []checks.Finding {
	switch node.Smoke.Fault {
	case "":
		return untried(node)
	case facts.FaultAlone:
		for _, check := range []string{computesID, nodeID} {
			if view.Found(check, checks.Fail, checks.Warn, checks.Unknown)[node.Name] {
				return []checks.Finding{leftTo(node, check)}
			}
		}
		return []checks.Finding{checks.UnknownFor(node, "fails without other nodes, so it was not tested with them")}
	case facts.FaultNode:
		return []checks.Finding{fault(view, []*facts.Node{node}, "all-reduce fails with each of "+hostfile.Fold(node.Smoke.Against)+", which work without it")}
	case facts.FaultEdge:
		var found []checks.Finding
		for _, other := range node.Smoke.Against {
			if pair := among(nodes, node.Name, other); isNew(told, pair) {
				found = append(found, fault(view, pair, "all-reduce fails between the two, but works with other nodes"))
			}
		}
		return found
	}
	all := among(nodes, append([]string{node.Name}, node.Smoke.Against...)...)
	summary := "all-reduce of these nodes fails; the faulty node is unknown"
	if slices.Contains(node.Smoke.Untried, facts.SmokePair) || slices.Contains(node.Smoke.Untried, facts.SmokeHalf) {
		summary += " (no time was left for smaller groups)"
	}
	if node.Smoke.Fault == facts.FaultCommon {
		summary = "all-reduce fails between every two of these nodes: they have a common cause"
		all = compare.Without(nodes, func(n *facts.Node) bool { return n.Smoke.Fault != facts.FaultCommon })
	}
	if !isNew(told, all) {
		return nil
	}
	return []checks.Finding{fault(view, all, summary)}
}

// untried returns an unknown for a node that has no finding but took no part in an all-reduce of
// all nodes.
func untried(node *facts.Node) []checks.Finding {
	for _, stage := range []facts.SmokeStage{facts.SmokeOne, facts.SmokeAll} {
		if slices.Contains(node.Smoke.Untried, stage) {
			return []checks.Finding{timeUp(node, stageWords[stage])}
		}
	}
	if !slices.ContainsFunc(node.Smoke.Trials, func(trial facts.SmokeTrial) bool { return trial.Nodes > 1 && trial.Passed }) {
		return []checks.Finding{checks.UnknownFor(node, "was not tested with other nodes")}
	}
	return nil
}

var stageWords = map[facts.SmokeStage]string{
	facts.SmokeNode: "the ranks of one node",
	facts.SmokeOne:  "one rank of each node",
	facts.SmokeAll:  "all ranks of all nodes",
	facts.SmokePair: "pairs of nodes",
	facts.SmokeHalf: "a group of nodes",
	facts.SmokeRail: "two nodes over one rail at a time",
}

// among returns the nodes that have one of the names, in the order of the fleet.
func among(nodes []*facts.Node, names ...string) []*facts.Node {
	return compare.Without(nodes, func(node *facts.Node) bool { return !slices.Contains(names, node.Name) })
}

func isNew(told map[string]bool, nodes []*facts.Node) bool {
	key := strings.Join(checks.NamesOf(nodes), "\x00")
	known := told[key]
	told[key] = true
	return !known
}

// fault returns the finding for nodes that fail together. It describes the failed trial with the
// fewest nodes.
func fault(view checks.View, nodes []*facts.Node, summary string) checks.Finding {
	f := checks.Finding{Nodes: checks.NamesOf(nodes), Summary: summary, Want: "the right sum on every rank"}
	byName := slices.SortedFunc(slices.Values(nodes), func(a, b *facts.Node) int { return strings.Compare(a.Name, b.Name) })
	node, trial := byName[0], facts.SmokeTrial{}
	for _, each := range byName {
		for _, one := range each.Smoke.Trials {
			// Prefer a trial with failures of the node's own ranks to one in which only other ranks
			// failed.
			better := trial.Stage == "" || len(one.Failures) > 0 && len(trial.Failures) == 0 ||
				(len(one.Failures) > 0) == (len(trial.Failures) > 0) && one.Nodes < trial.Nodes
			withOthers := len(each.Smoke.Against) > 0 && slices.ContainsFunc(one.With, func(name string) bool { return !slices.Contains(each.Smoke.Against, name) })
			if !one.Passed && one.Nodes > 1 && one.Stage != facts.SmokeRail && better && !withOthers {
				node, trial = each, one
			}
		}
	}
	if trial.Stage == "" {
		f.Remedy = cutOff(view, node)
		return f
	}
	f.Got = fmt.Sprintf("%s over %s", stageWords[trial.Stage], node.Smoke.Backend)
	if len(trial.With) > 0 {
		f.Got = fmt.Sprintf("%s with %s over %s", node.Name, hostfile.Fold(trial.With), node.Smoke.Backend)
	}
	if len(trial.Failures) > 0 {
		f.Got += ": " + allHappened(node, trial.Failures)
	}
	f.WouldSee = wouldSee(trial.Failures, "")
	fallback := ofTheWay
	if have(trial.Failures, facts.SmokeWrong) {
		fallback = ofItself(trial.Failures)
	}
	f = put(view, f, node, trial.Failures, fallback)
	return narrowed(view, f, nodes)
}

// narrowed adds the results of the trials over single rails to a finding.
func narrowed(view checks.View, f checks.Finding, nodes []*facts.Node) checks.Finding {
	for _, node := range nodes {
		with := checks.NamesOf(nodes)
		if len(nodes) == 1 {
			with = node.Smoke.Against
		}
		if words, way := byRail(view, node, with); words != "" && !f.Explained {
			f.Summary += "; " + words
			f.Remedy = append(way, f.Remedy...)
			return f
		}
	}
	return f
}
