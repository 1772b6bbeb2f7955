package checks

import (
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// sideways warns of interfaces beyond the first. NCCL's sockets use up to
// sixteen, and which of them call each other is the topology search's choice.
// Source: NVIDIA/nccl 2.30, transport/net_socket.cc.
func (p *placement) sideways() []Finding {
	if p.library != "NCCL" || len(p.view.Nodes) < len(p.view.All) || p.usesRDMA() {
		return nil
	}
	sockets := map[*facts.Node][]launch.Choice{}
	members := map[netip.Prefix]map[string]bool{} // network → addresses on it
	for _, node := range p.view.Nodes {
		sockets[node] = launch.Sockets(p.view.Launch, node)
		for _, socket := range sockets[node] {
			if network, known := networkOf(node, socket.Address); known {
				if members[network] == nil {
					members[network] = map[string]bool{}
				}
				members[network][socket.Address] = true
			}
		}
	}
	f := Finding{
		Verdict:  Warn,
		Summary:  "NCCL's sockets will also use interfaces that lead to no other node",
		WouldSee: "a hang or a connect error (No route to host, exceeded error retry count) at the first collective, after the ranks have met",
	}
	named := map[string][]string{}
	var unrouted []string
	for _, node := range p.view.Nodes {
		m, notKnown := p.of(node)
		if notKnown != "" || m.saidBy != "" {
			continue // told already, and cured by the same setting
		}
		for _, socket := range sockets[node][min(1, len(sockets[node])):] {
			network, known := networkOf(node, socket.Address)
			if !known || len(members[network]) > 1 {
				continue
			}
			if named[socket.Interface] == nil {
				unrouted = append(unrouted, socket.Interface)
			}
			named[socket.Interface] = append(named[socket.Interface], node.Name)
			f.Nodes = append(f.Nodes, node.Name)
		}
	}
	if f.Nodes == nil {
		return nil
	}
	var got []string
	for _, name := range unrouted[:min(4, len(unrouted))] {
		got = append(got, name+" on "+hostfile.Fold(named[name]))
	}
	f.Got = strings.Join(got, ", ")
	f.Want = "only interfaces that every node can be called at"
	f.Remedy = ncclFix(p.view.Launch, launch.IfnameFor(p.view.Nodes, p.wanted), "NCCL_SOCKET_IFNAME")
	return []Finding{f}
}

// wanted is the interface that the ranks of a node should take.
func (p *placement) wanted(node *facts.Node) string {
	if m, _ := p.of(node); m.saidBy != "" {
		return launch.PeerAddress(node).Interface
	}
	return p.choices[node].Interface
}

// usesRDMA is whether ranks will leave sockets aside for what carries data.
func (p *placement) usesRDMA() bool {
	return slices.ContainsFunc(p.view.Nodes, func(node *facts.Node) bool {
		return hasActivePort(node.IB) && !keptOffRDMA(rankEnv(p.view, node))
	})
}
