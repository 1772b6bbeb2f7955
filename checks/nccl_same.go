package checks

import (
	"maps"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

var ncclSame = Check{
	ID:       "nccl-same",
	Title:    "every node will load one NCCL version",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionPython},
	Doc: "Compares the version in the bytes of the libnccl that torch will get, missing counted. Since 2.23.4 NCCL refuses ranks of other versions; " +
		"older ones exchange structures of unlike size first. Equal versions built for different CUDA releases are warned of. " +
		"A node where something hides the libnccl that torch brought is nccl-loaded's finding, and left out here.",
	WouldSee: "Mismatched NCCL version detected : rank … version … rank 0 version … (before 2.23: Message truncated, or a hang)",
	Run:      judgeNCCL,
}

func judgeNCCL(view View) []Finding {
	var nodes []*facts.Node
	for _, node := range answering(view) {
		hidden := usesNCCL(node) && isShadowed(node.Python) && judgeLibrary(view, node) != nil
		if !hidden {
			nodes = append(nodes, node)
		}
	}
	if !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return len(n.Python.NCCL) > 0 }) {
		return nowhere(view, "a libnccl of its own")
	}
	var findings []Finding
	nodes = slices.DeleteFunc(nodes, func(n *facts.Node) bool {
		silent := len(n.Python.NCCL) > 0 && n.Python.NCCL[0].Version == ""
		if silent {
			findings = append(findings, unknown(n, n.Python.NCCL[0].Path+" does not say its version"))
		}
		return silent
	})
	nodes = asStated(view, nodes, "python.nccl.*.version")
	wanted := required{
		Name:    "NCCL",
		Version: ncclVersion,
		Install: func(version string) fix.Command { return installNCCL(view, nodes, version) },
		Look:    pip(view).List(),
		Lacking: "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory",
	}
	findings = append(findings, wanted.findings(nodes)...)
	if versions := groupBy(nodes, ncclVersion); len(versions) != 1 || versions[0].Value == "" {
		return findings // another version explains another CUDA
	}
	cuda := func(n *facts.Node) string { return n.Python.NCCL[0].CUDA }
	for _, d := range compare(among(nodes, "NCCL for CUDA", cuda)) {
		f := d.finding("NCCL builds")
		f.Verdict, f.WouldSee = Warn, "nothing as a rule: NCCL compares only its own version"
		f.Remedy = []fix.Command{wanted.Look}
		findings = append(findings, f)
	}
	return findings
}

// installNCCL installs the wheel of the nodes that have the version by one.
func installNCCL(view View, nodes []*facts.Node, version string) fix.Command {
	for _, node := range nodes {
		for _, name := range slices.Sorted(maps.Keys(node.Python.Packages)) {
			if strings.HasPrefix(name, "nvidia-nccl") && release(node.Python.Packages[name], 3) == release(version, 3) {
				return requiredPackage(view, name).Install(node.Python.Packages[name])
			}
		}
	}
	return pip(view).List()
}
