package checks

import (
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var torchSame = Check{
	ID:       "torch-same",
	Title:    "torch is on every node, in one release and one build",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionPython},
	Doc: "The ranks meet in a store that rank 0's torch serves. Its protocol changed in 2.1 and in 2.5, so that torch from different sides " +
		"of such a step cannot even meet; within one protocol each torch still brings its own NCCL and its own order of collectives. " +
		"A CPU build among CUDA builds cannot join at all; builds for different CUDA releases are warned of.",
	WouldSee: "a hang or Connection reset by peer in init_process_group, or a failure at the first collective",
	Run:      judgeTorch,
}

func judgeTorch(view View) []Finding {
	nodes := answering(view)
	hasTorch := func(n *facts.Node) bool { return n.Python.Torch != nil }
	if !slices.ContainsFunc(nodes, hasTorch) {
		return nowhere(view, "torch")
	}
	torch := func(value func(*facts.Torch) string) func(*facts.Node) string {
		return func(n *facts.Node) string {
			if n.Python.Torch == nil {
				return ""
			}
			return value(n.Python.Torch)
		}
	}
	wanted := requiredPackage(view, "torch")
	wanted.Version = torch(torchRelease)
	wanted.Install = func(release string) string { return installTorch(view, nodes, release) }
	findings := wanted.findings(nodes)
	for i := range findings {
		if findings[i].WouldSee == "" {
			findings[i].WouldSee = protocolsWouldSee(nodes)
		}
	}
	if findings != nil {
		return findings // another release explains another build
	}
	for _, d := range differences(nodes, []aspect{{"torch for", torch(torchBuild)}}) {
		f := d.finding("torch builds")
		if kinds := groupBy(nodes, torch(torchKind)); len(kinds) == 1 {
			f.Verdict = Warn
			f.WouldSee = "nothing as a rule; the NCCL that comes with each build may differ"
		}
		f.Fix = []string{wanted.Look}
		if !d.Split {
			f.Fix = []string{installTorch(view, nodes, d.Deviations[0].Want)}
		}
		findings = append(findings, f)
	}
	return findings
}

// installTorch installs the very build of the nodes that have the release, or
// were built for what is wanted. The builds of pytorch.org have an index each.
func installTorch(view View, nodes []*facts.Node, wanted string) string {
	for _, node := range nodes {
		torch := node.Python.Torch
		if torch == nil || torchRelease(torch) != wanted && torchBuild(torch) != wanted {
			continue
		}
		index := ""
		if _, label, _ := strings.Cut(torch.Version, "+"); label == "cpu" || strings.HasPrefix(label, "cu") || strings.HasPrefix(label, "rocm") {
			index = " --index-url https://download.pytorch.org/whl/" + label
		}
		return pipOn(view) + "install " + shellWord("torch=="+torch.Version) + index
	}
	return pipOn(view) + "list"
}

func torchRelease(t *facts.Torch) string {
	public, _, _ := strings.Cut(t.Version, "+")
	return public
}

// torchBuild is what torch was built for: "CUDA 12.4", "ROCm 6.2", "CPU".
func torchBuild(t *facts.Torch) string {
	switch {
	case t.CUDA != "":
		return "CUDA " + t.CUDA
	case t.HIP != "":
		return "ROCm " + t.HIP
	}
	return "CPU"
}

func torchKind(t *facts.Torch) string {
	kind, _, _ := strings.Cut(torchBuild(t), " ")
	return kind
}

// storeProtocol is the wire protocol of a torch release's TCPStore: clients
// validate the server since 2.1 and ping it since 2.5.
// Source: pytorch/pytorch, torch/csrc/distributed/c10d/TCPStore.cpp, v2.0 to v2.8.
func storeProtocol(t *facts.Torch) int {
	switch {
	case launch.Before(t.Version, "2.1"):
		return 0
	case launch.Before(t.Version, "2.5"):
		return 1
	}
	return 2
}

// protocolsWouldSee is what torch of different releases dies with.
func protocolsWouldSee(nodes []*facts.Node) string {
	met := map[int]bool{}
	for _, node := range nodes {
		if node.Python.Torch != nil {
			met[storeProtocol(node.Python.Torch)] = true
		}
	}
	switch {
	case len(met) == 1:
		return "the ranks meet and then fail or hang at the first collective (Mismatched NCCL version detected, Message truncated)"
	case met[0]:
		return "torch up to 2.0 and torch from 2.1 speak different store protocols: Connection reset by peer, or a hang in init_process_group"
	}
	return "torch from 2.5 pings a store that torch 2.1 to 2.4 does not answer: TCP client failed to connect/validate to host … - retrying, until the timeout"
}
