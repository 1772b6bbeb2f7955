// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"slices"

	"preflight/checks"
)

// Partition is a fleet by what a run says of each node, in hostfile order.
type Partition struct {
	// Good are nodes that were reached and judged by every check that ran, and that
	// nothing which counts is said of. A warning counts where warnings fail the run; what
	// is waived does not.
	Good []string
	// Bad are named by a finding that fails the run.
	Bad []string
	// Unknown are accused of nothing and not known to be good: a finding says that
	// something is not known of them, a section that a check needs is missing, their
	// connection broke, or they were not reached and nobody says that it is their fault.
	// They had not answered when the run was interrupted, or the checks that would accuse
	// them are switched off or waived. The exit code does not show them where another node
	// has failed, for 1 wins over 2. By a normalized snapshot nobody is good.
	Unknown []string
	// Whole are the checks that failed and blame no node, or the launching machine: the
	// launch as a whole is wrong, and no other nodes would help.
	Whole []string
}

// PartitionOf puts each node of a concluded report where it belongs.
func PartitionOf(r checks.Report) Partition {
	var nodes Partition
	accused, unsure := map[string]bool{}, map[string]bool{}
	for _, f := range r.Findings {
		counts := f.Verdict == checks.Fail || f.Verdict == checks.Warn && r.Strict
		noNode := len(f.Nodes) == 0 || r.Head != nil && slices.Equal(f.Nodes, []string{r.Head.Name})
		if counts && noNode && !slices.Contains(nodes.Whole, f.Check) {
			nodes.Whole = append(nodes.Whole, f.Check)
		}
		for _, node := range f.Nodes {
			accused[node] = accused[node] || counts
			unsure[node] = unsure[node] || f.Verdict == checks.Unknown
		}
	}
	ran := applied(r)
	for i := range r.Nodes {
		node := &r.Nodes[i]
		lacks := func(check checks.Check) bool { return check.Missing(node) != "" }
		switch broke := node.SSH != nil && node.SSH.Cause != ""; {
		case accused[node.Name]:
			nodes.Bad = append(nodes.Bad, node.Name)
		case !node.Reached, r.Normalized, unsure[node.Name], broke, slices.ContainsFunc(ran, lacks):
			nodes.Unknown = append(nodes.Unknown, node.Name)
		default:
			nodes.Good = append(nodes.Good, node.Name)
		}
	}
	return nodes
}

// applied are the checks of nodes that applied, whatever became of them, one for each set of
// sections that they need.
func applied(r checks.Report) (all []checks.Check) {
	for _, outcome := range r.Checks {
		check, known := Lookup(outcome.Check)
		did := outcome.Verdict != checks.Skip || outcome.Reason == checks.AllWaived
		alike := func(other checks.Check) bool { return slices.Equal(other.Needs, check.Needs) }
		if known && did && !check.OnHead && !slices.ContainsFunc(all, alike) {
			all = append(all, check)
		}
	}
	return all
}
