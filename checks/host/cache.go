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
	Title:    "no two nodes compile into one directory over NFS",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionDisk},
	Volatile: true,
	Doc: "Triton, Inductor and torch's extensions compile while the ranks run, and keep what they made below the home directory, which many clusters share by NFS. " +
		"Ranks of several nodes then write, rename and read the same files at the same moment, while each node's NFS client believes for seconds what it has seen before: " +
		"one rank ends with a stale file handle or a file that is not there, and all others wait for it. Looked at are Triton's cache (TRITON_CACHE_DIR), on GPUs and where Triton is " +
		"installed, Inductor's where somebody has moved it out of the temporary directory (TORCHINDUCTOR_CACHE_DIR), and torch's extensions (TORCH_EXTENSIONS_DIR) where the launch " +
		"compiles ops of DeepSpeed. What else compiles below home (FlashInfer, DeepGEMM, tvm-ffi) meets the same, and has variables of its own.",
	WouldSee: "OSError: [Errno 116] Stale file handle, on one rank; on the others the watchdog's timeout of a collective",
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
