package checks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// cure is how to have the ranks listen where the peers call, and what speaks
// for it.
func (p *placement) cure(node *facts.Node) (want string, fix []string) {
	const look = "{ssh} ip -br addr"
	peer := launch.PeerAddress(node)
	want = peer.Interface + ", by which the node was reached"
	if pairs, proven := meshProof(p.view.All, peerMesh); proven {
		want = peer.Interface + ", where " + pairs
	}
	named := told(p.view.Launch, "NCCL_SOCKET_IFNAME", "="+peer.Interface)
	switch {
	case peer.Interface == "", peer.Interface == p.choices[node].Interface:
		return "an address of its own that the other nodes can call", []string{look}
	case p.library == "gloo", named.NCCL(node).Address == peer.Address:
		return want, p.setInterface(peer.Interface)
	}
	env := rankEnv(p.view, node)
	for _, name := range []string{"NCCL_COMM_ID", "NCCL_SOCKET_FAMILY", "NCCL_OOB_NET_IFNAME"} {
		if env[name].Value != "" {
			fix = append(fix, takeOut(p.view, env[name])...)
		}
	}
	if fix == nil {
		return want + ", once it is up and that address its first", []string{look}
	}
	return want, fix
}

// setInterface has the library take the interface that leads to the peers: for
// all nodes at once where one value is right everywhere, else on this one.
func (p *placement) setInterface(peer string) []string {
	if p.library == "gloo" {
		if name := sharedName(p.view); name != "" {
			return ncclFix(name, "GLOO_SOCKET_IFNAME")
		}
		return []string{fmt.Sprintf(`{ssh} "echo GLOO_SOCKET_IFNAME=%s | sudo tee -a /etc/environment"`, peer)}
	}
	if list := ifnameList(p.view); list != "" {
		return ncclFix(list, "NCCL_SOCKET_IFNAME")
	}
	return onlyHere(peer)
}

// untried warns of a choice that nothing speaks for: not what leads to the
// peers, on a network of its own, and never called.
func (p *placement) untried(node *facts.Node) []Finding {
	choice := p.choices[node]
	if p.called[node.Name] || choice.Address == launch.PeerAddress(node).Address || p.hasNeighbour(node, choice) {
		return nil
	}
	f := Finding{
		Verdict: Warn,
		Nodes:   []string{node.Name},
		Summary: fmt.Sprintf("%s will take %s, and whether the other nodes get an answer there was not tried", p.library, spelledChoice(choice, nil)),
		Got:     choice.Rule,
	}
	f.Want, f.Fix = p.cure(node)
	return []Finding{f}
}

// hasNeighbour is whether another node's choice is on the network of this one.
func (p *placement) hasNeighbour(node *facts.Node, choice launch.Choice) bool {
	if p.networks == nil {
		p.networks = map[netip.Prefix]int{}
		for each, theirs := range p.choices {
			if network, known := networkOf(each, theirs.Address); known {
				p.networks[network]++
			}
		}
	}
	network, known := networkOf(node, choice.Address)
	return known && p.networks[network] > 1
}

// networkOf is the network that an interface's address is in.
func networkOf(node *facts.Node, address string) (netip.Prefix, bool) {
	for _, i := range node.Net.Interfaces {
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err == nil && prefix.Addr().String() == address {
				return prefix.Masked(), true
			}
		}
	}
	return netip.Prefix{}, false
}

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
		sockets[node] = p.view.Launch.NCCLSockets(node)
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
	var names []string
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
				names = append(names, socket.Interface)
			}
			named[socket.Interface] = append(named[socket.Interface], node.Name)
			f.Nodes = append(f.Nodes, node.Name)
		}
	}
	if f.Nodes == nil {
		return nil
	}
	var got []string
	for _, name := range names[:min(4, len(names))] {
		got = append(got, name+" on "+hostfile.Fold(named[name]))
	}
	f.Got = strings.Join(got, ", ")
	f.Want = "only interfaces that every node can be called at"
	f.Fix = ncclFix(launch.IfnameFor(p.view.Nodes, p.wanted), "NCCL_SOCKET_IFNAME")
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
