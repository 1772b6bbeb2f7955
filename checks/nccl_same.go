package checks

import (
	"slices"
	"strings"

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
	WouldSee: "Mismatched NCCL version detected : rank 1 version 22703 rank 0 version 22705 (before 2.23: Message truncated, or a hang)",
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
	cuda := func(n *facts.Node) string {
		if len(n.Python.NCCL) == 0 {
			return ""
		}
		return n.Python.NCCL[0].CUDA
	}
	for _, d := range differences(nodes, []aspect{{"NCCL", ncclVersion}}) {
		f := d.finding("NCCL versions")
		f.Fix = wheelFix(view, nodes, d)
		if d.lacking() {
			f.Summary = "there is no libnccl"
			f.WouldSee = "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory"
		}
		findings = append(findings, f)
	}
	if len(groupBy(nodes, ncclVersion)) > 1 {
		return findings // another version explains another CUDA
	}
	for _, d := range differences(nodes, []aspect{{"NCCL for CUDA", cuda}}) {
		f := d.finding("NCCL builds")
		f.Verdict, f.WouldSee = Warn, "nothing as a rule: NCCL compares only its own version"
		f.Fix = []string{"{ssh} " + interpreter(view, nodes[0]) + " -m pip list"}
		findings = append(findings, f)
	}
	return findings
}

// wheelFix installs the NCCL wheel of the other nodes where theirs is one.
func wheelFix(view View, nodes []*facts.Node, d difference) []string {
	want := d.Deviations[0].Want
	for _, node := range nodes {
		for name, version := range node.Python.Packages {
			if strings.HasPrefix(name, "nvidia-nccl") && want != "" && strings.HasPrefix(version, want) {
				wheel := difference{Deviations: []deviation{{Name: name, Want: version}}}
				return pipFix(interpreter(view, node), wheel)
			}
		}
	}
	return []string{"{ssh} " + interpreter(view, nodes[0]) + " -m pip list"}
}
