package checks

import (
	"fmt"
	"net/netip"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// cure is how to have the ranks listen where the peers call, and what speaks
// for it.
func (p *placement) cure(node *facts.Node) (want string, commands []fix.Command) {
	look := fix.On("ip -br addr")
	peer := launch.PeerAddress(node)
	want = peer.Interface + ", by which the node was reached"
	if pairs, proven := meshProof(p.view.Nodes, peerMesh); proven {
		want = peer.Interface + ", where " + pairs
	}
	named := told(p.view.Launch, "NCCL_SOCKET_IFNAME", "="+peer.Interface)
	switch {
	case peer.Interface == "", peer.Interface == p.choices[node].Interface:
		return "an address of its own that the other nodes can call", []fix.Command{look}
	case p.library == "gloo", launch.Bootstrap(named, node).Address == peer.Address:
		return want, p.setInterface(peer.Interface)
	}
	env := rankEnv(p.view, node)
	for _, name := range []string{"NCCL_COMM_ID", "NCCL_SOCKET_FAMILY", "NCCL_OOB_NET_IFNAME"} {
		if env[name].Value != "" {
			commands = append(commands, takeOut(p.view, env[name])...)
		}
	}
	if commands == nil {
		return want + ", once it is up and that address its first", []fix.Command{look}
	}
	return want, commands
}

// setInterface has the library take the interface that leads to the peers: for
// all nodes at once where one value is right everywhere, else on this one.
func (p *placement) setInterface(peer string) []fix.Command {
	if p.library == "gloo" {
		if name := sharedName(p.view); name != "" {
			return ncclFix(p.view.Launch, name, "GLOO_SOCKET_IFNAME")
		}
		return []fix.Command{fix.On("echo GLOO_SOCKET_IFNAME=%s | sudo tee -a /etc/environment", fix.Name(peer))}
	}
	if list := ifnameList(p.view); list != "" {
		return ncclFix(p.view.Launch, list, "NCCL_SOCKET_IFNAME")
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
	f.Want, f.Remedy = p.cure(node)
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
