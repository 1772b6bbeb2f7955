package checks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// judgeName judges a meeting at a name: what every node takes it for. On the
// node that serves a loopback address does no harm, for the store listens on all.
func (m masterPlace) judgeName() []Finding {
	if _, together := gathered(m.view.All, rendezvousOf); together {
		return nil
	}
	home := m.home()
	if home == nil {
		return nil // that nobody serves, or several do, is for rendezvous to say
	}
	right := addressesOf(home)
	if reached, err := netip.ParseAddr(home.Address); err == nil {
		right = append(right, reached)
	}
	var findings []Finding
	for i := range m.view.All {
		node := &m.view.All[i]
		lookup, asked := lookupOf(node, m.Host)
		switch {
		case !asked:
			continue
		case lookup.Unanswered:
			findings = append(findings, unanswered(node)...)
			continue
		case node == home && len(lookup.Addresses) > 0, slices.ContainsFunc(lookup.Addresses, isOneOf(right)):
			continue
		}
		if m.isHostfileName() {
			return skip(m.Host + " does not lead to node 0 everywhere: see host-names")
		}
		findings = append(findings, m.wrongName(node, lookup, right))
	}
	return findings
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

func lookupOf(node *facts.Node, name string) (facts.Lookup, bool) {
	if node.Names == nil {
		return facts.Lookup{}, false
	}
	at := slices.IndexFunc(node.Names.Lookups, func(l facts.Lookup) bool { return hostfile.Bare(l.Name) == name })
	if at < 0 {
		return facts.Lookup{}, false
	}
	return node.Names.Lookups[at], true
}

func isOneOf(right []netip.Addr) func(string) bool {
	return func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && slices.Contains(right, address.Unmap())
	}
}

// isHostfileName is whether host-names judges the name already.
func (m masterPlace) isHostfileName() bool {
	return !m.view.Policy.SwitchesOff(hostNames.ID) && slices.ContainsFunc(m.view.All, func(n facts.Node) bool {
		return hostfile.Bare(n.Name) == m.Host
	})
}

func (m masterPlace) wrongName(node *facts.Node, lookup facts.Lookup, right []netip.Addr) Finding {
	f := Finding{
		Nodes:    []string{node.Name},
		Summary:  fmt.Sprintf("%s, where the ranks will meet, does not lead to node 0", m.Host),
		Got:      strings.Join(lookup.Addresses, " "),
		WouldSee: fmt.Sprintf("The client socket has timed out after … while trying to connect to (%s, %d).", m.Host, m.Port),
	}
	_, f.Fix = m.cure()
	if len(right) > 0 {
		f.Want = right[0].String()
	}
	f.Fix = append(f.Fix, lookUpName(m.Host))
	if len(lookup.Addresses) == 0 {
		f.Summary = fmt.Sprintf("%s, where the ranks will meet, does not resolve", m.Host)
		f.Got = lookup.Error
		f.WouldSee = fmt.Sprintf("The IPv4 network addresses of (%s, %d) cannot be retrieved (gai error: -2 - Name or service not known).", m.Host, m.Port)
	}
	return f
}
