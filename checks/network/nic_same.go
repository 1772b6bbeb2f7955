package network

import (
	"slices"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch/nccl"
)

var NICSame = checks.Check{
	ID:       "nic-same",
	Title:    "one interface name selects the peers' network on every node",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNet},
	Doc: "Finds the interface that carries the address each node was reached at, or by which it reaches its peers. Where the names differ, one value of " +
		"NCCL_SOCKET_IFNAME that is right here is wrong there, and DeepSpeed exports the launching machine's to all; the fix is a list that was " +
		"tried by NCCL's rules on every node's interfaces. A node where ranks already see NCCL_SOCKET_IFNAME is env-sane's to judge.",
	WouldSee: "Bootstrap : no socket interface found, on the nodes where a name set for the others is not there",
	Run:      judgeInterfaces,
}

func judgeInterfaces(view checks.View) []checks.Finding {
	if len(view.All) == 1 {
		return checks.Skipped("a single node has no peers")
	}
	var nodes []*facts.Node
	var findings []checks.Finding
	for _, node := range view.Nodes {
		switch {
		case ranks.Env(view, node)["NCCL_SOCKET_IFNAME"].Value != "":
		case names.PeerInterface(node) == "":
			findings = append(findings, checks.UnknownFor(node, "no interface has the address it was reached at, and no route to a peer names one"))
		default:
			nodes = append(nodes, node)
		}
	}
	list := ifnameList(view)
	for _, d := range compare.Differences(compare.Among(nodes, "interface", names.PeerInterface)) {
		f := d.Finding("names of the interface to the peers")
		f.Remedy = setForAll(view.Launch, "NCCL_SOCKET_IFNAME", list)
		if list == "" && !d.Split {
			f.Remedy = onlyHere(d.Deviations[0].Got)
		}
		findings = append(findings, f)
	}
	return findings
}

// exactMark explains what looks like a typing error.
const exactMark = "the second = means: exactly this name"

// onlyHere has NCCL take one interface on the nodes of a finding.
func onlyHere(name string) []fix.Command {
	return []fix.Command{fix.On("echo NCCL_SOCKET_IFNAME==%s | sudo tee -a /etc/nccl.conf", fix.Name(name)).Remark(exactMark)}
}

// ifnameList is the value of NCCL_SOCKET_IFNAME that selects exactly the
// peers' interface on every node seen, "" when there is none.
func ifnameList(view checks.View) string {
	return checks.Remember(view, ifnames{}, func() string { return nccl.IfnameFor(placed(view), names.PeerInterface) })
}

type ifnames struct{}

// sharedName is the name that the peers' interface has on every node seen, ""
// when it has several. Gloo and tensorpipe take whole names only.
func sharedName(view checks.View) string { return proof.Common(placed(view), names.PeerInterface) }

// placed is the nodes of which it is known what leads to their peers.
func placed(view checks.View) []*facts.Node {
	return slices.DeleteFunc(view.Everywhere(), func(node *facts.Node) bool { return names.PeerInterface(node) == "" })
}
