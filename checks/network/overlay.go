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
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
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
	want := "a network of the nodes' own adapters"
	commands := []fix.Command{fix.On("ip -br addr").As(fix.Look), fix.Note("if the nodes share another network, use its names in the hostfile and its interface in %s", fix.Variable(library))}
	if name := adapter(view.Everywhere()); name != "" {
		want = name + ", which every node has"
		commands = []fix.Command{ranks.ExportLine(view.Launch, library, name)}
	}
	for _, node := range view.Nodes {
		if ranks.UsesNCCL(view) && node.IB != nil && ranks.NCCLNetwork(view, node).Obstacle == "" {
			continue // the node's data goes over RDMA
		}
		choice := nccl.RankAddress(view.Launch, node)
		if held := names.InterfaceOf(node.Net, choice.Interface); held.Kind == "tunnel" {
			findings = append(findings, checks.Finding{
				Nodes:   []string{node.Name},
				Summary: fmt.Sprintf("the ranks will send all their data through the tunnel %s", held.Name),
				Got:     fmt.Sprintf("%s, MTU %d", held.Name, held.MTU),
				Want:    want,
				Remedy:  commands,
			})
		}
	}
	return findings
}

// adapter returns the name of an interface that every node has, or "" for none. The interface is
// up, has an address, leads to other machines and is not a tunnel.
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
