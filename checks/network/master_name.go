package network

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// judgeName judges a meeting at a name: what every node takes it for. On the
// node that serves a loopback address does no harm, for the store listens on
// all. A name that leads alike to an address of no node may be a translated one
// or a load balancer's: whether it leads on to node 0 only a rendezvous can tell.
func (m masterPlace) judgeName() []checks.Finding {
	planned := proof.Attended(m.view.All, proof.RendezvousOf)
	if planned.Proven() {
		return nil
	}
	home := m.home()
	if home == nil {
		return nil // that nobody serves, or several do, is for rendezvous to say
	}
	resolved := func(node *facts.Node) []string {
		lookup, _ := names.LookupOf(node, m.Host)
		return lookup.Addresses
	}
	switch place := names.MostlyLedTo(m.view.Nodes, resolved); {
	case planned.Together() || place == nil || names.LeadsTo(place, home) || m.isNameOf(home):
		return m.misled(home)
	case m.ledTo(place) != nil:
		return []checks.Finding{m.anothers(fmt.Sprintf("%s (%s)", m.Host, strings.Join(place, " ")), m.ledTo(place))}
	case planned.Took > 1:
		return nil
	}
	return []checks.Finding{m.untried()}
}

// misled is the nodes that the name does not lead to the one that serves, as far
// as they did not get there.
func (m masterPlace) misled(home *facts.Node) []checks.Finding {
	var findings []checks.Finding
	for _, node := range m.view.Everywhere() {
		lookup, asked := names.LookupOf(node, m.Host)
		switch {
		case !asked, proof.IsCounted(node.Rendezvous):
			continue
		case lookup.Unanswered:
			findings = append(findings, names.Unanswered(node)...)
			continue
		case node == home && len(lookup.Addresses) > 0, names.LeadsTo(lookup.Addresses, home):
			continue
		}
		if m.isHostfileName() {
			return checks.Skipped(m.Host + " does not lead to node 0 everywhere: see host-names")
		}
		findings = append(findings, m.wrongName(node, lookup, home))
	}
	return findings
}

// ledTo is the node that one of these addresses leads to.
func (m masterPlace) ledTo(addresses []string) *facts.Node {
	return names.First(m.view.Nodes, func(node *facts.Node) bool { return names.LeadsTo(addresses, node) })
}

// home is the one node that will serve the store, nil when there is no such.
func (m masterPlace) home() *facts.Node {
	var home *facts.Node
	for _, node := range m.view.Nodes {
		if serves, _ := m.view.Launch.Serves(m.Endpoint, node, m.first); serves && home != nil {
			return nil
		} else if serves {
			home = node
		}
	}
	return home
}

// isNameOf is whether the meeting's name is a node's own in the hostfile.
func (m masterPlace) isNameOf(node *facts.Node) bool { return hostfile.Bare(node.Name) == m.Host }

// isHostfileName is whether host-names judges the name already.
func (m masterPlace) isHostfileName() bool {
	return !m.view.Policy.SwitchesOff("host-names") && slices.ContainsFunc(m.view.All, func(n facts.Node) bool {
		return m.isNameOf(&n)
	})
}

func (m masterPlace) wrongName(node *facts.Node, lookup facts.Lookup, home *facts.Node) checks.Finding {
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Summary:  fmt.Sprintf("%s, where the ranks will meet, does not lead to node 0", m.Host),
		Got:      strings.Join(lookup.Addresses, " "),
		WouldSee: timedOut(m.Host, m.Port),
	}
	_, f.Remedy = m.remedy()
	if right := names.AddressesOf(home); len(right) > 0 {
		f.Want = right[0].String()
	}
	f.Remedy = append(f.Remedy, names.LookUp(m.Host))
	if len(lookup.Addresses) == 0 {
		f.Summary = fmt.Sprintf("%s, where the ranks will meet, does not resolve", m.Host)
		f.Got = lookup.Error
		f.WouldSee = names.Unresolved(m.Host, m.Port)
	}
	return f
}

// untried warns of an address that nothing speaks for.
func (m masterPlace) untried() checks.Finding {
	f := m.finding(fmt.Sprintf("the ranks will meet at %s, and whether all nodes reach node 0 there was not tried", m.Host), "")
	f.Verdict = checks.Warn
	return f
}

// anothers is a meeting at another node than the one that will serve.
func (m masterPlace) anothers(place string, holder *facts.Node) checks.Finding {
	f := m.finding(fmt.Sprintf("the ranks will meet at %s, which is %s's address, and rank 0 runs on %s", place, holder.Name, m.first.Name), "nobody serves the store there")
	first := fix.Note("or put %s first in the hostfile: rank 0 runs on its first host", fix.Host(holder.Name))
	if m.view.Launch.Rendezvous == launch.RendezvousStatic {
		first = fix.Note("or start torchrun with --node_rank=0 on %s", fix.Host(holder.Name))
	}
	f.Remedy = append(f.Remedy, first)
	return f
}

// place is the address with the interface that holds it.
func (m masterPlace) place(holder *facts.Node) string {
	if holder == nil {
		return m.Host
	}
	if held, _, known := names.HolderOf(holder, m.Host); known {
		return fmt.Sprintf("%s (%s)", m.Host, held.Name)
	}
	return m.Host
}

// holds says what can be said of all nodes where some were not seen.
func (m masterPlace) holds() string {
	if len(m.view.Nodes) < len(m.view.All) {
		return "that was reached holds"
	}
	return "holds"
}

// finding says what is wrong with the address, and where the ranks could meet.
func (m masterPlace) finding(summary, consequence string) checks.Finding {
	f := checks.Finding{Nodes: []string{m.first.Name}, Summary: summary, Got: strings.Trim(m.Rule+"; "+consequence, "; ")}
	if m.Host != "" {
		f.WouldSee = timedOut(m.Host, m.Port)
	}
	f.Want, f.Remedy = m.remedy()
	return f
}
