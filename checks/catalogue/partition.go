// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"slices"

	"preflight/checks"
)

// Partition groups the nodes of a fleet by the result of a run, each group in hostfile order.
type Partition struct {
	// Good lists the nodes that every check of the run could examine and for which no finding
	// counts. Warnings count only if warnings fail the run, and waived findings never count.
	Good []string
	// Bad lists the nodes that are named by a finding that fails the run.
	Bad []string
	// Unknown lists the nodes that are neither bad nor known to be good. Something about them is
	// unknown, a needed section is missing, their connection broke, or they were not reached and no
	// finding blames them. No finding blames them if the run was interrupted, or if the check that
	// would blame them is switched off or waived.
	//
	// The exit code does not show these nodes if another node failed, because 1 wins over 2. With a
	// normalized snapshot no node is good.
	Unknown []string
	// Whole lists the failed checks that blame no node, or only the launching machine. The launch
	// itself is then wrong, and other nodes would not help.
	Whole []string
}

// PartitionOf returns the partition of a concluded report.
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

// applied returns the checks of nodes that were not skipped. If several checks need the same
// sections, it returns only one of them.
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
