package checks

import (
	"fmt"
	"maps"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// unlikeMTUs compares the interfaces on each network.
func unlikeMTUs(view View) []Finding {
	networks := map[string][]*facts.Node{}
	for _, node := range view.Nodes {
		network, known := networkOf(node, node.Mesh.Address)
		if known && meshInterface(node).MTU != 0 {
			networks[network.String()] = append(networks[network.String()], node)
		}
	}
	var findings []Finding
	mtu := func(n *facts.Node) string { return fmt.Sprint(meshInterface(n).MTU) }
	for _, network := range slices.Sorted(maps.Keys(networks)) {
		stated := "net.interfaces." + networks[network][0].Mesh.Interface + ".mtu"
		for _, d := range compare(alikeByPolicy(view, among(networks[network], "MTU", mtu), stated)...) {
			f := d.finding("MTUs on the network of the ranks")
			f.Verdict = Warn
			f.WouldSee = "nothing over TCP; over RoCE, Got completion … with status=12 (retry exceeded)"
			f.Remedy = []fix.Command{fix.On("ip link show")}
			if name := sameInterface(networks[network], d.Nodes); !d.Split && name != "" {
				f.Remedy = []fix.Command{fix.On("sudo ip link set dev %s mtu %s   # until the next boot", fix.Name(name), fix.Name(d.Deviations[0].Want))}
			}
			findings = append(findings, f)
		}
	}
	return findings
}

// sameInterface is the interface that all the named nodes listened at, "" when
// they differ.
func sameInterface(nodes []*facts.Node, names []string) string {
	same := ""
	for _, node := range nodes {
		switch {
		case !slices.Contains(names, node.Name):
		case same != "" && same != node.Mesh.Interface:
			return ""
		default:
			same = node.Mesh.Interface
		}
	}
	return same
}

// meshInterface is the interface a node listened at, the zero one where it is
// not known.
func meshInterface(node *facts.Node) facts.Interface {
	at := slices.IndexFunc(node.Net.Interfaces, func(i facts.Interface) bool { return i.Name == node.Mesh.Interface })
	if at < 0 {
		return facts.Interface{}
	}
	return node.Net.Interfaces[at]
}
