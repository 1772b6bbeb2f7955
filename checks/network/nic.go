// SPDX-License-Identifier: Apache-2.0

// Package network judges whether the ranks will meet and talk over IP: the interface each
// chooses and the environment that chooses it, the calls between all nodes, the MTU, the
// master address and port, and the rendezvous that was tried.
//
// It refuses to report again what the names, the way in or the fabric explain.
package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

var NICChoice = checks.Check{
	ID:       "nic-choice",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Run:      judgeChoices,
}

func judgeChoices(view checks.View) []checks.Finding {
	if len(view.All) == 1 {
		return checks.Skipped("a single node has no peers")
	}
	p := placementOf(view)
	var findings []checks.Finding
	var faulty []misplacement
	for _, node := range view.Nodes {
		m, reason := p.of(node)
		switch {
		case reason != "":
			findings = append(findings, checks.UnknownFor(node, reason))
		case m.explainedBy == "nic-choice":
			faulty = append(faulty, m)
		case m.explainedBy == "":
			findings = append(findings, p.untried(node)...)
		}
	}
	kind := func(m misplacement) string {
		twins := ""
		if m.hasTwin() {
			twins = m.choice.Address
		}
		return fmt.Sprint(m.fault, "\x00", m.choice.Interface, "\x00", names.PeerInterface(m.node), m.byOrder, twins)
	}
	for _, group := range text.GroupBy(faulty, kind) {
		findings = append(findings, p.finding(group.All))
	}
	return append(findings, p.sideways()...)
}

// finding puts misplacements of one kind on interfaces of one name into words.
func (p *placement) finding(group []misplacement) checks.Finding {
	first := group[0]
	f := checks.Finding{Got: first.choice.Rule}
	var addresses []string
	for _, m := range group {
		f.Nodes = append(f.Nodes, m.node.Name)
		addresses = append(addresses, m.choice.Address)
	}
	fault := first.fault
	if fault == heldTwice {
		fault = alsoHeld(p.view, first.choice.Address, f.Nodes)
	}
	f.Summary = fmt.Sprintf("%s will use %s, %s", p.library, choiceText(first.choice, addresses), fault)
	if first.choice.Error != "" {
		f.Summary, f.WouldSee = p.library+" finds no interface to use", first.choice.Error
	}
	if len(group) == 1 && first.callers != nil {
		f.Got = strings.Trim(fmt.Sprintf("%s got no answer; %s", hostfile.Fold(first.callers), first.choice.Rule), "; ")
	}
	if len(group) == 1 && len(first.callers) == 1 { // one word against another
		f.Nodes = append(f.Nodes, first.callers...)
	}
	if first.byOrder {
		f.Verdict, f.WouldSee = checks.Warn, "nothing, "+ranks.ByOrder
	}
	f.Want, f.Remedy = p.remedy(first.node)
	f.Remedy = append(remedy.WithHostNetwork(first.node), f.Remedy...)
	if peer := nccl.PeerAddress(first.node); len(group) == 1 && peer.Interface != "" {
		if reason, is := strings.CutPrefix(f.Want, peer.Interface); is {
			f.Want = fmt.Sprintf("%s (%s)%s", peer.Interface, peer.Address, reason)
		}
	}
	switch {
	case p.holdsOthers[first.node.Name] != nil:
		f.Remedy = append(f.Remedy, p.giveBack(first.node)...)
	case first.hasTwin():
		f.Nodes, f.Got = twins(p.view, first.choice.Address, f.Nodes), strings.Trim(holdings(p.view, first.choice.Address)+"; "+f.Got, "; ")
		f.Remedy = append(f.Remedy, takeAway(p.view, first.choice.Address)...)
	}
	return f
}

// choiceText is an interface with its address where all have the same one.
func choiceText(choice nccl.Choice, addresses []string) string {
	switch {
	case slices.ContainsFunc(addresses, func(address string) bool { return address != addresses[0] }):
		return choice.Interface
	case choice.Interface == "":
		return choice.Address
	}
	return fmt.Sprintf("%s (%s)", choice.Interface, choice.Address)
}

// remedy is how to have the ranks listen where the peers call, and what speaks
// for it.
func (p *placement) remedy(node *facts.Node) (want string, commands []fix.Command) {
	look := fix.On("ip -br addr").As(fix.Look)
	peer := nccl.PeerAddress(node)
	want = peer.Interface + ", where preflight reached the node"
	if pairs, proven := proof.MeshProof(p.view.Nodes, proof.PeerMesh); proven {
		want = peer.Interface + ", where " + pairs
	}
	named := ranks.Exporting(p.view.Launch, "NCCL_SOCKET_IFNAME", "="+peer.Interface)
	switch {
	case peer.Interface == "", peer.Interface == p.choices[node].Interface:
		return "an address that only this node has and that the others can reach", []fix.Command{look}
	case p.library == "gloo", nccl.Bootstrap(named, node).Address == peer.Address:
		return want, p.setInterface(peer.Interface)
	}
	env := ranks.Env(p.view, node)
	for _, name := range []string{"NCCL_COMM_ID", "NCCL_SOCKET_FAMILY", "NCCL_OOB_NET_IFNAME"} {
		if env.Get(name).Value != "" {
			commands = append(commands, ranks.TakeOut(p.view, env.Get(name))...)
		}
	}
	if commands == nil {
		return want + "; it must be up, with that address first", []fix.Command{look}
	}
	return want, commands
}

// setInterface has the library take the interface that leads to the peers: for
// all nodes at once where one value is right everywhere, else on this one.
func (p *placement) setInterface(peer string) []fix.Command {
	if p.library == "gloo" {
		if name := sharedName(p.view); name != "" {
			return setForAll(p.view.Launch, "GLOO_SOCKET_IFNAME", name)
		}
		return []fix.Command{fix.On("echo GLOO_SOCKET_IFNAME=%s | sudo tee -a /etc/environment", fix.Name(peer)).Inside()}
	}
	if list := ifnameList(p.view); list != "" {
		return setForAll(p.view.Launch, "NCCL_SOCKET_IFNAME", list)
	}
	return onlyHere(peer)
}

// untried warns of a choice that nothing speaks for: not what leads to the
// peers, on a network of its own, and never called.
func (p *placement) untried(node *facts.Node) []checks.Finding {
	choice := p.choices[node]
	if p.called[node.Name] || choice.Address == nccl.PeerAddress(node).Address || p.hasNeighbour(node, choice) {
		return nil
	}
	f := checks.Finding{
		Verdict: checks.Warn,
		Nodes:   []string{node.Name},
		Summary: fmt.Sprintf("%s will use %s, which no other node has tested", p.library, choiceText(choice, nil)),
		Got:     choice.Rule,
	}
	f.Want, f.Remedy = p.remedy(node)
	return []checks.Finding{f}
}

// hasNeighbour is whether another node's choice is on the network of this one.
func (p *placement) hasNeighbour(node *facts.Node, choice nccl.Choice) bool {
	if p.networks == nil {
		p.networks = map[netip.Prefix]int{}
		for each, theirs := range p.choices {
			if network, known := names.NetworkOf(each, theirs.Address); known {
				p.networks[network]++
			}
		}
	}
	network, known := names.NetworkOf(node, choice.Address)
	return known && p.networks[network] > 1
}

var NICSame = checks.Check{
	ID:       "nic-same",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNet},
	Run:      judgeInterfaces,
}

func judgeInterfaces(view checks.View) []checks.Finding {
	if len(view.All) == 1 {
		return checks.Skipped("a single node has no peers")
	}
	if !ranks.UsesNCCL(view) {
		return checks.Skipped("accelerator cpu: gloo selects an address, not an interface name")
	}
	var nodes []*facts.Node
	var findings []checks.Finding
	for _, node := range view.Nodes {
		switch {
		case ranks.Env(view, node).Get("NCCL_SOCKET_IFNAME").Value != "":
		case names.PeerInterface(node) == "":
			findings = append(findings, checks.UnknownFor(node, "no interface has the address that preflight reached, and no route leads to a peer"))
		default:
			nodes = append(nodes, node)
		}
	}
	list := ifnameList(view)
	for _, d := range compare.Differences(compare.Among(nodes, "interface", names.PeerInterface)) {
		f := d.Finding("interface names")
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
	return []fix.Command{fix.On("echo NCCL_SOCKET_IFNAME==%s | sudo tee -a /etc/nccl.conf", fix.Name(name)).Inside().Remark(exactMark)}
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
