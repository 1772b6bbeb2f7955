package checks

import (
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

var nicSame = Check{
	ID:       "nic-same",
	Title:    "one interface name selects the peers' network on every node",
	Severity: Warning,
	Needs:    []facts.Section{facts.SectionNet},
	Doc: "Finds the interface that carries the address each node was reached at, or by which it reaches its peers. Where the names differ, one value of " +
		"NCCL_SOCKET_IFNAME that is right here is wrong there, and DeepSpeed exports the launching machine's to all; the fix is a list that was " +
		"tried by NCCL's rules on every node's interfaces. A node where ranks already see NCCL_SOCKET_IFNAME is env-sane's to judge.",
	WouldSee: "Bootstrap : no socket interface found, on the nodes where a name set for the others is not there",
	Run:      judgeInterfaces,
}

func judgeInterfaces(view View) []Finding {
	if len(view.All) == 1 {
		return skip("a single node has no peers")
	}
	var nodes []*facts.Node
	var findings []Finding
	for _, node := range view.Nodes {
		switch {
		case rankEnv(view, node)["NCCL_SOCKET_IFNAME"].Value != "":
		case peerInterface(node) == "":
			findings = append(findings, unknown(node, "no interface has the address it was reached at, and no route to a peer names one"))
		default:
			nodes = append(nodes, node)
		}
	}
	for _, d := range compare(among(nodes, "interface", peerInterface)) {
		f := d.finding("names of the interface to the peers")
		f.Remedy = ncclFix(view.Launch, ifnameList(view), "NCCL_SOCKET_IFNAME")
		if ifnameList(view) == "" && !d.Split {
			f.Remedy = onlyHere(d.Deviations[0].Got)
		}
		findings = append(findings, f)
	}
	return findings
}

// exactMark explains what looks like a slip of the pen.
const exactMark = "the second = means: exactly this name"

// onlyHere has NCCL take one interface on the nodes of a finding.
func onlyHere(name string) []fix.Command {
	return []fix.Command{fix.On("echo NCCL_SOCKET_IFNAME==%s | sudo tee -a /etc/nccl.conf", fix.Name(name)).Remark(exactMark)}
}

func peerInterface(node *facts.Node) string { return launch.PeerAddress(node).Interface }

// ifnameList is the value of NCCL_SOCKET_IFNAME that selects exactly the
// peers' interface on every node seen, "" when there is none.
func ifnameList(view View) string {
	nodes, interfaces := placed(view)
	return launch.IfnameFor(nodes, func(n *facts.Node) string { return interfaces[n] })
}

// sharedName is the name that the peers' interface has on every node seen, ""
// when it has several. Gloo and tensorpipe take whole names only.
func sharedName(view View) string {
	nodes, interfaces := placed(view)
	return commonName(nodes, func(n *facts.Node) string { return interfaces[n] })
}

// placed is the nodes of which it is known what leads to their peers.
func placed(view View) (nodes []*facts.Node, interfaces map[*facts.Node]string) {
	interfaces = map[*facts.Node]string{}
	for i := range view.All {
		node := &view.All[i]
		if name := peerInterface(node); name != "" {
			nodes = append(nodes, node)
			interfaces[node] = name
		}
	}
	return nodes, interfaces
}
