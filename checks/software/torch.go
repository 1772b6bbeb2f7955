// SPDX-License-Identifier: Apache-2.0

package software

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

var TorchSame = checks.Check{
	ID:       "torch-same",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionPython},
	Run:      judgeTorch,
}

func judgeTorch(view checks.View) []checks.Finding {
	nodes := ranks.Answering(view)
	hasTorch := func(n *facts.Node) bool { return n.Python.Torch != nil }
	if !slices.ContainsFunc(nodes, hasTorch) {
		return nowhere(view, "torch")
	}
	findings := slices.Concat(damaged(view, nodes, "torch"), brokenImports(view, nodes, true), unlikeTorch(view, nodes), uncompared(nodes))
	for _, node := range nodes {
		findings = append(findings, lacksRequirements(view, node, "torch")...)
	}
	return findings
}

// unlikeTorch compares the releases of torch. It compares the builds only if the releases agree.
func unlikeTorch(view checks.View, nodes []*facts.Node) []checks.Finding {
	wanted := requiredPackage(view, "torch")
	wanted.Version = torchRelease
	wanted.Install = func(pip fix.Pip, release string) fix.Command { return installTorch(pip, nodes, release) }
	nodes = compare.AsStated(view, compare.AsStated(view, nodes, compare.PackagePath("torch")), "python.torch.version")
	absent, unlike := wanted.findings(view, nodes)
	for i := range unlike {
		mismatch, several := storeMismatch(view, nodes)
		switch {
		case mismatch != "":
			unlike[i].WouldSee = mismatch
		case !ranks.UsesNCCL(view):
			unlike[i].Verdict = checks.Warn
			unlike[i].WouldSee = "usually nothing: gloo ranks of these releases connect and reduce; a hang if they order their collectives differently"
		case several:
			unlike[i].WouldSee = "the ranks connect, because a newer store understands older clients, and then fail or hang at the first collective"
		default:
			unlike[i].WouldSee = "the ranks connect and then fail or hang at the first collective (Mismatched NCCL version detected, Message truncated)"
		}
	}
	findings := append(absent, unlike...)
	if findings != nil {
		return findings // different releases already explain different builds
	}
	for _, d := range compare.Differences(recorded(view, compare.Among(nodes, "torch for", ranks.TorchBuild))) {
		f := d.Finding("torch builds")
		if kinds := compare.GroupBy(nodes, ranks.TorchKind); len(kinds) == 1 {
			f.Verdict = checks.Warn
			f.WouldSee = "usually nothing; the NCCL of each build may differ"
		}
		f.Remedy = []fix.Command{listed(view)}
		if d.Split {
			either := remedy.EitherWay(d, func(d compare.Difference) []fix.Command {
				return []fix.Command{installTorch(remedy.Pip(view), nodes, d.Deviations[0].Want)}
			})
			if either != nil {
				f.Remedy = either
			}
		} else {
			f.Remedy = []fix.Command{installTorch(remedy.Pip(view), nodes, d.Deviations[0].Want)}
		}
		findings = append(findings, f)
	}
	return findings
}

// installTorch returns the command that installs the wanted release or build of torch. It installs
// the exact build of a node that has it.
func installTorch(pip fix.Pip, nodes []*facts.Node, wanted string) fix.Command {
	for _, node := range nodes {
		if torch := node.Python.Torch; torch != nil && (torchRelease(node) == wanted || ranks.TorchBuild(node) == wanted) {
			return pip.Install([]fix.Requirement{{Name: "torch", Version: torch.Version}})[0]
		}
	}
	return pip.List().As(fix.Look)
}

// torchRelease returns torch's release without its build label, or "" if the node has no torch. The
// functions of package ranks that return builds also return "" then.
func torchRelease(node *facts.Node) string {
	if node.Python.Torch == nil {
		return ""
	}
	public, _, _ := strings.Cut(node.Python.Torch.Version, "+")
	return public
}

// storeMismatch returns the error of a rendezvous between different releases of torch. It compares
// the store protocols of the clients with the protocol of rank 0's server, and returns "" if they
// are compatible. several is true if the nodes use more than one protocol.
func storeMismatch(view checks.View, nodes []*facts.Node) (died string, several bool) {
	torch := func(n *facts.Node) facts.Generation { return launch.StoreGeneration(n.Python.Torch.Version) }
	nodes = compare.Without(nodes, func(n *facts.Node) bool { return n.Python.Torch == nil })
	generations := compare.GroupBy(nodes, func(n *facts.Node) string { return string(torch(n)) })
	at := slices.IndexFunc(nodes, func(n *facts.Node) bool { return n.Name == names.FirstHost(view) })
	if at < 0 {
		return "", false // without the torch of rank 0, there is no server to compare with
	}
	for _, clients := range generations {
		if mixed := launch.StoreMismatch(facts.Generation(clients.Value), torch(nodes[at])); mixed != "" {
			return fmt.Sprintf("client on %s (torch %s), server on %s (torch %s): %s",
				hostfile.Fold(clients.Nodes), clients.Value, nodes[at].Name, torch(nodes[at]), mixed), true
		}
	}
	return "", len(generations) > 1
}
