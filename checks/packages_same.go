package checks

import (
	"maps"
	"slices"
	"strings"

	"preflight/facts"
)

var protobufSame = Check{
	ID:       "protobuf-same",
	Title:    "protobuf is on every node, in one version",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionPython},
	Doc: "Generated code loads only under a protobuf runtime of the right age, so an import that works on one node fails on another. " +
		"Patch releases of one version are interchangeable, and only warned of.",
	WouldSee: "TypeError: Descriptors cannot be created directly, on the odd nodes only",
	Run: func(view View) []Finding {
		minor := func(n *facts.Node) string { return release(n.Python.Packages["protobuf"], 2) }
		findings := judgePackage(view, "protobuf")
		for i := range findings {
			if findings[i].Verdict == "" && len(groupBy(answering(view), minor)) == 1 {
				findings[i].Verdict = Warn
				findings[i].WouldSee = "nothing as a rule"
			}
		}
		return findings
	},
}

var packagesSame = Check{
	ID:       "packages-same",
	Title:    "the other packages that matter are alike on every node",
	Severity: Warning,
	Needs:    []facts.Section{facts.SectionPython},
	Doc: "numpy, transformers, accelerate, triton, flash-attn and their like. Ranks that compute with different versions may import, " +
		"load a checkpoint or order their collectives differently. Which packages have a check of their own is left to it.",
	WouldSee: "ImportError on the odd nodes only, or a hang where their order of collectives differs",
	Run:      judgePackages,
}

func judgePackages(view View) []Finding {
	nodes := answering(view)
	names := map[string]bool{}
	for _, node := range nodes {
		for name := range node.Python.Packages {
			names[name] = names[name] || !hasOwnCheck(name)
		}
	}
	var all []comparison
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			version := among(nodes, name, func(n *facts.Node) string { return n.Python.Packages[name] })
			all = append(all, alikeByPolicy(view, version, packagePath(name))...)
		}
	}
	if len(all) == 0 {
		return nowhere(view, "any of the other packages")
	}
	var findings []Finding
	for _, d := range compare(all...) {
		f := d.finding("packages")
		f.Remedy = pipFix(view, d)
		findings = append(findings, f)
	}
	return findings
}

func hasOwnCheck(name string) bool {
	return name == "torch" || name == "deepspeed" || name == "protobuf" || strings.HasPrefix(name, "nvidia-nccl")
}

// judgePackage compares one package, or skips where no node has it.
func judgePackage(view View, name string) []Finding {
	has := func(n *facts.Node) bool { return n.Python.Packages[name] != "" }
	if !slices.ContainsFunc(answering(view), has) {
		return nowhere(view, name)
	}
	return requiredPackage(view, name).findings(asStated(view, answering(view), packagePath(name)))
}
