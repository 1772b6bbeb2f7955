// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
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
		"and a hostfile with the overlay's names leads them there. Named is a tunnel that ranks will take, and the interface beside it that all nodes have on one network.",
	WouldSee: "nothing: training works, and every collective takes ten times as long",
	Run:      judgeOverlays,
}

// overlays are how the names of interfaces begin that an overlay gives them itself.
//
// Source: tailscale/tailscale, cmd/tailscaled, defaultTunName; zerotier/ZeroTierOne,
// osdep/LinuxEthernetTap.cpp; wg-quick(8); slackhq/nebula, examples/config.yml.
var overlays = []struct{ begins, is string }{
	{"tailscale", "Tailscale"}, {"zt", "ZeroTier"}, {"wg", "WireGuard"}, {"nebula", "Nebula"},
}

// overlayOf is what carries an interface, "" for what is no tunnel. The outer kind of the
// interface has to agree: a card may be called wg0.
func overlayOf(i facts.Interface) string {
	if i.Kind != "tunnel" {
		return ""
	}
	for _, o := range overlays {
		if strings.HasPrefix(i.Name, o.begins) {
			return o.is
		}
	}
	return "a tunnel"
}

func judgeOverlays(view checks.View) (findings []checks.Finding) {
	if len(view.All) == 1 {
		return checks.Skipped("a single node has no peers")
	}
	var through []tunnelled
	for _, node := range view.Nodes {
		if ranks.UsesNCCL(view) && node.IB != nil && ranks.NCCLNetwork(view, node).Obstacle == "" {
			continue // what they tell each other goes by RDMA
		}
		choice := nccl.RankAddress(view.Launch, node)
		held := names.InterfaceOf(node.Net, choice.Interface)
		if by := overlayOf(held); by != "" {
			through = append(through, tunnelled{node, choice, by, held.MTU})
		}
	}
	for _, group := range proof.Gather(through, func(t tunnelled) string { return fmt.Sprint(t.by, t.choice.Interface, t.mtu) }) {
		findings = append(findings, overTunnel(view, group))
	}
	return findings
}

// tunnelled is a node whose ranks will go through a tunnel.
type tunnelled struct {
	node   *facts.Node
	choice nccl.Choice
	by     string
	mtu    int
}

func overTunnel(view checks.View, group []tunnelled) checks.Finding {
	first := group[0]
	f := checks.Finding{
		Summary: fmt.Sprintf("all that ranks tell each other will go through %s: %s", first.by, first.choice.Interface),
		Got:     fmt.Sprintf("%s, MTU %d", first.choice.Rule, first.mtu),
		Want:    "the network that the nodes' own adapters are on",
	}
	for _, t := range group {
		f.Nodes = append(f.Nodes, t.node.Name)
	}
	library := "NCCL_SOCKET_IFNAME"
	if !ranks.UsesNCCL(view) {
		library = "GLOO_SOCKET_IFNAME"
	}
	if name := beside(view); name != "" {
		f.Want = name + ", which all nodes have on one network"
		f.Remedy = []fix.Command{ranks.ExportLine(view.Launch, library, name)}
	} else {
		f.Remedy = []fix.Command{fix.On("ip -br addr"), fix.Note("where the nodes have another network among them, name it in the hostfile, and its interface by %s", fix.Variable(library))}
	}
	return f
}

// beside is an interface of one name that all nodes have on one network, that is up, and no
// tunnel and nothing inside the machine; "" for none.
func beside(view checks.View) string {
	nodes := view.Everywhere()
	if nodes[0].Net == nil {
		return ""
	}
	for _, candidate := range nodes[0].Net.Interfaces {
		network, onOne := "", true
		for _, node := range nodes {
			i := names.InterfaceOf(node.Net, candidate.Name)
			its := ""
			if addresses := i.IPv4(); len(addresses) > 0 && i.Up && !i.Loopback && i.Kind != "tunnel" && !isInside(i) {
				_, prefix, _ := names.HolderOf(node, strings.Split(addresses[0], "/")[0])
				its = prefix.String()
			}
			onOne = onOne && its != "" && (network == "" || its == network)
			network = its
		}
		if onOne {
			return candidate.Name
		}
	}
	return ""
}
