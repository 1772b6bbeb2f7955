package software

import (
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
)

var ProtobufWorks = checks.Check{
	ID:       "protobuf-works",
	Title:    "protobuf can load the generated code of the installed packages",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionPython},
	Doc: "A package brings _pb2.py files made by some protoc. Those from before 3.19 do not load under a protobuf runtime of 4 or later, " +
		"unless PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python, which is slow; those newer than the runtime do not load either. " +
		"It strikes at the first import of that package.",
	WouldSee: "TypeError: Descriptors cannot be created directly (older releases: Descriptors cannot not be created directly)",
	Run:      judgeProtobuf,
}

func judgeProtobuf(view checks.View) []checks.Finding {
	nodes := ranks.Answering(view)
	if !slices.ContainsFunc(nodes, func(n *facts.Node) bool { return n.Python.Protobuf != nil }) {
		return ranks.Nowhere(view, "protobuf")
	}
	var findings []checks.Finding
	for _, node := range nodes {
		protobuf := node.Python.Protobuf
		if protobuf == nil {
			continue
		}
		if len(protobuf.OldGenerated) > 0 && !hostfile.Before(protobuf.Runtime, "4") {
			f := checks.Finding{
				Nodes:   []string{node.Name},
				Summary: "generated code is too old for the protobuf runtime",
				Got:     strings.Join(protobuf.OldGenerated, ", ") + " under protobuf " + protobuf.Runtime,
				Want:    "protobuf 3.20 or older, or newer releases of these packages",
				Remedy:  []fix.Command{remedy.Pip(view).Run("install -U %s", fix.List[fix.Package](" ", protobuf.OldGenerated)), remedy.Pip(view).Run("install %s", fix.Package("protobuf<=3.20.3"))},
			}
			if protobuf.Implementation == "python" {
				f.Verdict = checks.Warn
				f.Summary = "generated code loads only by the slow pure-python protobuf"
				f.WouldSee = "nothing, while PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python reaches the ranks"
			}
			findings = append(findings, f)
		}
		if len(protobuf.NewGenerated) > 0 {
			findings = append(findings, checks.Finding{
				Nodes:    []string{node.Name},
				Summary:  "generated code is too new for the protobuf runtime",
				Got:      strings.Join(protobuf.NewGenerated, ", ") + ", installed is " + protobuf.Runtime,
				Want:     "a protobuf at least as new as its generated code",
				WouldSee: "VersionError: Detected incompatible Protobuf Gencode/Runtime versions, or ImportError: cannot import name 'builder'",
				Remedy:   []fix.Command{remedy.Pip(view).Run("install -U protobuf")},
			})
		}
	}
	return findings
}
