// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

var CacheLocal = checks.Check{
	ID:       "cache-local",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionDisk},
	Volatile: true,
	Run: func(view checks.View) []checks.Finding {
		if len(view.All) < 2 {
			return checks.Skipped("one node shares no cache with another node")
		}
		if !slices.ContainsFunc(view.Nodes, func(n *facts.Node) bool { return ranks.Caches(view, n) != nil }) {
			return checks.Skipped("the launch uses none of the compilers that this check knows")
		}
		var findings []checks.Finding
		for _, crowd := range ranks.CrowdedCaches(view) {
			findings = append(findings, crowded(view, crowd))
		}
		return findings
	},
}

func crowded(view checks.View, crowd ranks.Crowd) checks.Finding {
	f := checks.Finding{
		Summary: "several nodes compile into the same NFS directory: " + crowd.Role,
		Got:     fmt.Sprintf("%s, %s on %s", crowd.Path, crowd.FSType, crowd.Source),
		Want:    crowd.Variable + " on a local disk of each node",
	}
	for _, node := range crowd.Nodes {
		f.Nodes = append(f.Nodes, node.Name)
	}
	if dir := crowd.Elsewhere(); dir != "" {
		f.Remedy = []fix.Command{ranks.ExportLine(view.Launch, crowd.Variable, dir)}
	} else {
		f.Remedy = []fix.Command{fix.Note("export %s to every rank, with a directory on a local disk of each node", fix.Variable(crowd.Variable))}
	}
	return f
}
