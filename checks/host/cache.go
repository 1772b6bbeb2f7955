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
			return checks.Skipped("one node shares its caches with no other")
		}
		if !slices.ContainsFunc(view.Nodes, func(n *facts.Node) bool { return ranks.Caches(view, n) != nil }) {
			return checks.Skipped("nothing that compiles while the ranks run is known to be used")
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
		Summary: "ranks of these nodes compile into one directory over NFS: " + crowd.Role,
		Got:     fmt.Sprintf("%s, %s on %s", crowd.Path, crowd.FSType, crowd.Source),
		Want:    crowd.Variable + " on a disk of each node's own",
	}
	for _, node := range crowd.Nodes {
		f.Nodes = append(f.Nodes, node.Name)
	}
	if dir := crowd.Elsewhere(); dir != "" {
		f.Remedy = []fix.Command{ranks.ExportLine(view.Launch, crowd.Variable, dir)}
	} else {
		f.Remedy = []fix.Command{fix.Note("export %s to every rank, with a directory on a disk of each node's own", fix.Variable(crowd.Variable))}
	}
	return f
}
