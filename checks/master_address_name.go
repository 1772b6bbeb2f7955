package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// judgeName judges a meeting at a name: what every node takes it for. On the
// node that serves a loopback address does no harm, for the store listens on
// all. A name that leads alike to an address of no node may be a translated one
// or a load balancer's: whether it leads on to node 0 only a rendezvous can tell.
func (m masterPlace) judgeName() []Finding {
	planned := attended(m.view.All, rendezvousOf)
	if planned.proven() {
		return nil
	}
	home := m.home()
	if home == nil {
		return nil // that nobody serves, or several do, is for rendezvous to say
	}
	switch place := mostlyLedTo(m.view.Nodes, m.resolved); {
	case planned.together() || place == nil || leadsTo(place, home) || m.isNameOf(home):
		return m.misled(home)
	case m.ledTo(place) != nil:
		return []Finding{m.anothers(fmt.Sprintf("%s (%s)", m.Host, strings.Join(place, " ")), m.ledTo(place))}
	case planned.took > 1:
		return nil
	}
	return []Finding{m.untried()}
}

// misled is the nodes that the name does not lead to the one that serves, as far
// as they did not get there.
func (m masterPlace) misled(home *facts.Node) []Finding {
	var findings []Finding
	for i := range m.view.All {
		node := &m.view.All[i]
		lookup, asked := lookupOf(node, m.Host)
		switch {
		case !asked, isCounted(node.Rendezvous):
			continue
		case lookup.Unanswered:
			findings = append(findings, unanswered(node)...)
			continue
		case node == home && len(lookup.Addresses) > 0, leadsTo(lookup.Addresses, home):
			continue
		}
		if m.isHostfileName() {
			return skip(m.Host + " does not lead to node 0 everywhere: see host-names")
		}
		findings = append(findings, m.wrongName(node, lookup, home))
	}
	return findings
}

// resolved is what a node takes the meeting's name for.
func (m masterPlace) resolved(node *facts.Node) []string {
	lookup, _ := lookupOf(node, m.Host)
	return lookup.Addresses
}

// ledTo is the node that one of these addresses leads to.
func (m masterPlace) ledTo(addresses []string) *facts.Node {
	for _, node := range m.view.Nodes {
		if leadsTo(addresses, node) {
			return node
		}
	}
	return nil
}

// home is the one node that will serve the store, nil when there is no such.
func (m masterPlace) home() *facts.Node {
	var home *facts.Node
	for _, node := range m.view.Nodes {
		if serves, _ := m.view.Launch.Serves(m.Meeting, node, m.first); serves && home != nil {
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

func (m masterPlace) wrongName(node *facts.Node, lookup facts.Lookup, home *facts.Node) Finding {
	f := Finding{
		Nodes:    []string{node.Name},
		Summary:  fmt.Sprintf("%s, where the ranks will meet, does not lead to node 0", m.Host),
		Got:      strings.Join(lookup.Addresses, " "),
		WouldSee: fmt.Sprintf("The client socket has timed out after … while trying to connect to (%s, %d).", m.Host, m.Port),
	}
	_, f.Remedy = m.cure()
	if right := addressesOf(home); len(right) > 0 {
		f.Want = right[0].String()
	}
	f.Remedy = append(f.Remedy, lookUpName(m.Host))
	if len(lookup.Addresses) == 0 {
		f.Summary = fmt.Sprintf("%s, where the ranks will meet, does not resolve", m.Host)
		f.Got = lookup.Error
		f.WouldSee = fmt.Sprintf("The IPv4 network addresses of (%s, %d) cannot be retrieved (gai error: -2 - Name or service not known).", m.Host, m.Port)
	}
	return f
}
