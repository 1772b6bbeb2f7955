package checks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

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
	for _, d := range differences(nodes, []aspect{{"interface", peerInterface}}) {
		f := d.finding("names of the interface to the peers")
		f.Fix = ncclFix(ifnameList(view), "NCCL_SOCKET_IFNAME")
		if ifnameList(view) == "" && !d.Split {
			line := "NCCL_SOCKET_IFNAME==" + d.Deviations[0].Got
			f.Fix = []string{fmt.Sprintf(`{ssh} "echo %s | sudo tee -a /etc/nccl.conf"`, line) + exactMark}
		}
		findings = append(findings, f)
	}
	return findings
}

// exactMark explains what looks like a slip of the pen.
const exactMark = "   # the second = means: exactly this name"

// peerInterface is the interface that holds the address the node was reached
// at. Behind a translated address, or on the launching machine itself, it is the
// one its routes to peers leave by, where they agree. "" when neither tells.
func peerInterface(node *facts.Node) string {
	if reached, err := netip.ParseAddr(node.Address); err == nil {
		for _, i := range node.Net.Interfaces {
			for _, prefix := range i.Addresses {
				address, err := netip.ParsePrefix(prefix)
				if err == nil && address.Addr() == reached.Unmap() && !i.Loopback {
					return i.Name
				}
			}
		}
	}
	var leaves []string
	for _, route := range node.Net.Routes {
		if route.Interface != "" && route.Interface != "lo" && !slices.Contains(leaves, route.Interface) {
			leaves = append(leaves, route.Interface)
		}
	}
	if len(leaves) != 1 {
		return ""
	}
	return leaves[0]
}

// ifnameList is the value of NCCL_SOCKET_IFNAME that selects exactly the
// peers' interface on every node seen, "" when there is none.
func ifnameList(view View) string {
	names := map[string]bool{}
	var nodes []*facts.Node
	for i := range view.All {
		if node := &view.All[i]; node.Net != nil && peerInterface(node) != "" {
			nodes = append(nodes, node)
			names[peerInterface(node)] = true
		}
	}
	list := "=" + strings.Join(slices.Sorted(maps.Keys(names)), ",")
	for _, node := range nodes {
		selected, _ := launch.MatchIfname(list, addressed(node.Net))
		if !slices.Equal(selected, []string{peerInterface(node)}) {
			return ""
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return list
}
