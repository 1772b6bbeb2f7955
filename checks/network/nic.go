// SPDX-License-Identifier: Apache-2.0

// Package network checks whether the ranks will reach each other over IP. It checks the interface
// that each rank chooses, and the environment variables that affect this choice. It also checks the
// connections between all nodes, the MTU, the master address and port, and the rendezvous.
//
// It does not report problems that the checks of names, logins or fabric already explain.
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
	return append(append(findings, p.sideways()...), p.strays()...)
}

// finding returns the finding for misplacements of one kind on interfaces with the same name.
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
	if len(group) == 1 && len(first.callers) == 1 { // either of the two nodes may be at fault
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

// choiceText returns an interface, with its address if all nodes have the same address on it.
func choiceText(choice nccl.Choice, addresses []string) string {
	switch {
	case slices.ContainsFunc(addresses, func(address string) bool { return address != addresses[0] }):
		return choice.Interface
	case choice.Interface == "":
		return choice.Address
	}
	return fmt.Sprintf("%s (%s)", choice.Interface, choice.Address)
}

// remedy returns the interface on which the ranks should listen, with the reason for it. It also
// returns the commands that make the ranks use that interface.
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

// setInterface returns the commands that make the library use the interface that leads to the
// peers. They change all nodes at once if one value is right everywhere, otherwise only the nodes
// of the finding.
func (p *placement) setInterface(peer string) []fix.Command {
	if p.library == "gloo" {
		if name := sharedName(p.view); name != "" {
			return setForAll(p.view.Launch, "GLOO_SOCKET_IFNAME", name)
		}
		return []fix.Command{fix.On("echo GLOO_SOCKET_IFNAME=%s | sudo tee -a /etc/environment", fix.Name(peer))}
	}
	if list := ifnameList(p.view); list != "" {
		return setForAll(p.view.Launch, "NCCL_SOCKET_IFNAME", list)
	}
	return onlyHere(peer)
}

// untried warns about an interface that no evidence supports. The interface does not lead to the
// peers, is on a separate network, and no node connected to its address.
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

// hasNeighbour reports whether the interface that another node chooses is on the same network.
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

// exactMark explains the second "=" in a printed command, because it looks like a typing error.
const exactMark = "the second = means: exactly this name"

// onlyHere returns the command that makes NCCL use one interface on the nodes of a finding.
func onlyHere(name string) []fix.Command {
	return []fix.Command{fix.On("echo NCCL_SOCKET_IFNAME==%s | sudo tee -a /etc/nccl.conf", fix.Name(name)).Remark(exactMark)}
}

// ifnameList returns the value of NCCL_SOCKET_IFNAME that matches only the interface to the peers
// on every seen node. It returns "" if there is no such value.
func ifnameList(view checks.View) string {
	return checks.Remember(view, ifnames{}, func() string { return nccl.IfnameFor(placed(view), names.PeerInterface) })
}

type ifnames struct{}

// sharedName returns the name of the interface to the peers if the name is the same on every seen
// node, otherwise "". The value must be one name because gloo and tensorpipe accept only whole
// names.
func sharedName(view checks.View) string { return proof.Common(placed(view), names.PeerInterface) }

// placed returns the nodes whose interface to the peers is known.
func placed(view checks.View) []*facts.Node {
	return slices.DeleteFunc(view.Everywhere(), func(node *facts.Node) bool { return names.PeerInterface(node) == "" })
}

var GlooAddress = checks.Check{
	ID:       "gloo-address",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionNet, facts.SectionNames},
	Volatile: true,
	Run:      judgeGloo,
}

func judgeGloo(view checks.View) (findings []checks.Finding) {
	switch {
	case len(view.All) == 1:
		return checks.Skipped("a single node has no peers")
	case !ranks.UsesNCCL(view):
		return checks.Skipped("ranks on CPUs use only gloo: see nic-choice")
	}
	p := placementOf(view)
	for _, node := range view.Nodes {
		choice := nccl.Gloo(view.Launch, node)
		isNamed := ranks.Env(view, node).Get("GLOO_SOCKET_IFNAME").Value != ""
		switch {
		case !isNamed && len(names.Own(view, node)) > 0: // host-names reports the problem
		case choice.Error != "": // env-sane reports the problem
		case p.isAccused(node, choice): // nic-choice reports the problem
		case choice.Address == "":
			findings = append(findings, checks.UnknownFor(node, choice.Rule))
		case p.glooFault(node, choice) != "":
			findings = append(findings, p.glooFinding(node, choice))
		}
	}
	return findings
}

// isAccused reports whether nic-choice already fails NCCL because NCCL uses the same address.
func (p *placement) isAccused(node *facts.Node, choice nccl.Choice) bool {
	m, _ := p.of(node)
	return m.explainedBy == "nic-choice" && m.choice.Address == choice.Address
}

// glooFault returns the fault of the address that gloo uses, or "" for none. The connections of the
// mesh test say something about this address only if NCCL and gloo choose the same address.
func (p *placement) glooFault(node *facts.Node, choice nccl.Choice) string {
	here := *p
	if node.Mesh == nil || node.Mesh.Address != choice.Address {
		here.called, here.answered = nil, nil
	}
	return here.fault(node, choice)
}

func (p *placement) glooFinding(node *facts.Node, choice nccl.Choice) checks.Finding {
	f := checks.Finding{
		Nodes:   []string{node.Name},
		Summary: fmt.Sprintf("gloo will use %s, %s", choiceText(choice, nil), p.glooFault(node, choice)),
		Got:     choice.Rule,
		Want:    "an address that the other nodes can reach",
	}
	switch {
	case ranks.GlooMesh(p.view).Caller(node) == nil:
		f.WouldSee = "nothing, " + ranks.ByOrder
	case ranks.UsesGloo(p.view):
		f.Verdict = checks.Fail
	}
	peer := nccl.PeerAddress(node)
	if name := sharedName(p.view); name != "" {
		f.Want = fmt.Sprintf("%s, where preflight reached the nodes", name)
		f.Remedy = setForAll(p.view.Launch, "GLOO_SOCKET_IFNAME", name)
	} else if peer.Interface != "" {
		f.Want = fmt.Sprintf("%s (%s), where preflight reached the node", peer.Interface, peer.Address)
		f.Remedy = []fix.Command{fix.On("echo GLOO_SOCKET_IFNAME=%s | sudo tee -a /etc/environment", fix.Name(peer.Interface))}
	}
	f.Remedy = append(remedy.WithHostNetwork(node), f.Remedy...)
	return f
}
