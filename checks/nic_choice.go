package checks

import (
	"fmt"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

var nicChoice = Check{
	ID:       "nic-choice",
	Title:    "the interface that NCCL or gloo will take on each node leads to the peers",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Doc: "Predicts which interface and address the ranks will listen on, by NCCL's rules (gloo's on cpu) and what they see of the environment, and asks " +
		"whether the peers can call it there: no loopback, no address that other nodes hold too (docker0's 172.17.0.1), no link-local one, no other " +
		"family than the peers', up, and answering in the mesh drill. Another interface than the one that leads to the peers is fine where the drill " +
		"passed on it. Interfaces beyond the first, which NCCL's sockets use too, are warned of when no other node is on their network.",
	WouldSee: "socketStartConnect: Connect to ADDRESS<PORT> failed : Connection refused (or No route to host), or a hang at the first collective",
	Run:      judgeChoices,
}

func judgeChoices(view View) []Finding {
	if len(view.All) == 1 {
		return skip("a single node has no peers")
	}
	p := newPlacement(view)
	var findings []Finding
	var faulty []misplacement
	for _, node := range view.Nodes {
		m, reason := p.of(node)
		switch {
		case reason != "":
			findings = append(findings, unknown(node, reason))
		case m.saidBy == "nic-choice":
			faulty = append(faulty, m)
		case m.saidBy == "":
			findings = append(findings, p.untried(node)...)
		}
	}
	findings = append(findings, p.findings(faulty)...)
	return append(findings, p.sideways()...)
}

// findings puts misplacements into words, those of one kind on interfaces of
// one name together.
func (p *placement) findings(faulty []misplacement) []Finding {
	var findings []Finding
	gathered := map[string][]misplacement{}
	var order []string
	for _, m := range faulty {
		key := m.fault + "\x00" + m.choice.Interface + "\x00" + launch.PeerAddress(m.node).Interface
		if gathered[key] == nil {
			order = append(order, key)
		}
		gathered[key] = append(gathered[key], m)
	}
	for _, key := range order {
		findings = append(findings, p.finding(gathered[key]))
	}
	return findings
}

func (p *placement) finding(group []misplacement) Finding {
	first := group[0]
	f := Finding{Got: first.choice.Rule}
	var addresses []string
	for _, m := range group {
		f.Nodes = append(f.Nodes, m.node.Name)
		addresses = append(addresses, m.choice.Address)
	}
	f.Summary = fmt.Sprintf("%s will take %s, %s", p.library, spelledChoice(first.choice, addresses), first.fault)
	if first.choice.Error != "" {
		f.Summary, f.WouldSee = p.library+" finds no interface to use", first.choice.Error
	}
	if len(group) == 1 && first.callers != nil {
		f.Got = strings.Trim(fmt.Sprintf("no answer to %s; %s", hostfile.Fold(first.callers), first.choice.Rule), "; ")
	}
	f.Want, f.Remedy = p.cure(first.node)
	if peer := launch.PeerAddress(first.node); len(group) == 1 && peer.Interface != "" {
		f.Want = fmt.Sprintf("%s (%s)%s", peer.Interface, peer.Address, strings.TrimPrefix(f.Want, peer.Interface))
	}
	return f
}

// spelledChoice is an interface with its address where all have the same one.
func spelledChoice(choice launch.Choice, addresses []string) string {
	for _, address := range addresses {
		if address != addresses[0] {
			return choice.Interface
		}
	}
	if choice.Interface == "" {
		return choice.Address
	}
	return fmt.Sprintf("%s (%s)", choice.Interface, choice.Address)
}
