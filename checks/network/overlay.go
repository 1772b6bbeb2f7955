// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch/nccl"
)

var Overlay = checks.Check{
	ID:       "overlay-network",
	Title:    "what ranks tell each other does not go through a tunnel",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Doc: "Tailscale, WireGuard, ZeroTier, VXLAN and the like carry packets inside others, which a processor packs and mostly encrypts: one or a few Gbit/s of a link that has a hundred, " +
		"by a smaller MTU, and with some through a relay elsewhere. Where NCCL has no RDMA device to use, or ranks are on processors, all that they tell each other goes by the interface that they choose, " +
		"and a hostfile with the overlay's names leads them there. Named is a tunnel that ranks will take, and an adapter that all nodes have beside it.",
	WouldSee: "nothing: training works, and every collective takes ten times as long",
	Run:      judgeOverlays,
}

func judgeOverlays(view checks.View) (findings []checks.Finding) {
	if len(view.All) == 1 {
		return checks.Skipped("a single node has no peers")
	}
	library := "NCCL_SOCKET_IFNAME"
	if !ranks.UsesNCCL(view) {
		library = "GLOO_SOCKET_IFNAME"
	}
	want := "the network that the nodes' own adapters are on"
	commands := []fix.Command{fix.On("ip -br addr"), fix.Note("where the nodes have another network among them, name it in the hostfile, and its interface by %s", fix.Variable(library))}
	if name := adapter(view.Everywhere()); name != "" {
		want = name + ", which all nodes have"
		commands = []fix.Command{ranks.ExportLine(view.Launch, library, name)}
	}
	for _, node := range view.Nodes {
		if ranks.UsesNCCL(view) && node.IB != nil && ranks.NCCLNetwork(view, node).Obstacle == "" {
			continue // what they tell each other goes by RDMA
		}
		choice := nccl.RankAddress(view.Launch, node)
		if held := names.InterfaceOf(node.Net, choice.Interface); held.Kind == "tunnel" {
			findings = append(findings, checks.Finding{
				Nodes:   []string{node.Name},
				Summary: fmt.Sprintf("all that ranks tell each other will go through a tunnel: %s", held.Name),
				Got:     fmt.Sprintf("%s, MTU %d", held.Name, held.MTU),
				Want:    want,
				Remedy:  commands,
			})
		}
	}
	return findings
}

// adapter returns the name of an interface that every node has, up and with an address, which leads to
// other machines and is no tunnel; "" for none.
func adapter(nodes []*facts.Node) string {
	if nodes[0].Net == nil {
		return ""
	}
	for _, candidate := range nodes[0].Net.Interfaces {
		lacks := func(node *facts.Node) bool {
			i := names.InterfaceOf(node.Net, candidate.Name)
			return !i.Up || i.Internal() || i.Kind == "tunnel" || len(i.IPv4()) == 0
		}
		if !slices.ContainsFunc(nodes, lacks) {
			return candidate.Name
		}
	}
	return ""
}
