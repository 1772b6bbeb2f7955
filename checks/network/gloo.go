// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/launch/nccl"
)

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
