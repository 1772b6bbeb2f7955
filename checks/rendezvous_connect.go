package checks

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// unconnected names who keeps callers from the store: the server where none of
// the other nodes gets in, else the callers.
func (g gathering) unconnected(nodes []*facts.Node) []Finding {
	var findings []Finding
	var astray []*facts.Node
	for _, node := range nodes {
		if g.isWrongAddress(node) {
			findings = append(findings, g.astray(node))
			astray = append(astray, node)
		}
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return slices.Contains(astray, n) })
	for _, group := range groupBy(nodes, func(n *facts.Node) string { return string(g.part(n).Outcome) }) {
		outcome := facts.PathOutcome(group.Value)
		callers := slices.DeleteFunc(slices.Clone(group.Nodes), func(name string) bool { return name == g.server.Name })
		switch {
		case len(callers) == 0:
			findings = append(findings, g.selfless(outcome))
		case len(callers) == len(g.nodes)-1 && outcome != facts.PathUnroutable && outcome != facts.PathBroken:
			findings = append(findings, g.closed(outcome, callers))
		default:
			findings = append(findings, g.cutOff(outcome, callers))
		}
	}
	return findings
}

// astray calls another machine than the one that serves.
func (g gathering) astray(node *facts.Node) Finding {
	return Finding{
		Nodes:    []string{node.Name},
		Summary:  fmt.Sprintf("takes %s, where the ranks will meet, for another machine than %s", g.host, g.server.Name),
		Got:      strings.Join(g.part(node).Addresses, " "),
		Want:     launch.PeerAddress(g.server).Address,
		WouldSee: g.timedOut(),
		Fix:      []string{lookUpName(g.host), "{ssh} sudoedit /etc/hosts"},
	}
}

// selfless: rank 0 is a client of its own store and calls it like the others.
func (g gathering) selfless(outcome facts.PathOutcome) Finding {
	return Finding{
		Nodes:    []string{g.server.Name},
		Summary:  fmt.Sprintf("serves the store and cannot call itself at %s", g.endpoint()),
		Got:      cmp.Or(g.part(g.server).Error, string(outcome)),
		Want:     "an answer from its own address: no firewall on it, no translation that only works from outside",
		WouldSee: g.timedOut(),
		Fix:      []string{"{ssh} ip route get " + shellWord(g.address(g.server)), "{ssh} sudo iptables -S INPUT"},
	}
}

// closed: nobody gets in from outside.
func (g gathering) closed(outcome facts.PathOutcome, callers []string) Finding {
	f := Finding{
		Nodes:    []string{g.server.Name},
		Got:      g.otherPorts(callers),
		Want:     fmt.Sprintf("TCP port %s open to all nodes", g.port),
		WouldSee: g.timedOut(),
		Fix:      g.open(),
	}
	switch outcome {
	case facts.PathRejected:
		f.Summary = fmt.Sprintf("a firewall on it rejects what comes in on port %s", g.port)
		f.WouldSee = g.rejected("113 - No route to host")
	case facts.PathRefused, facts.PathReset:
		f.Summary = fmt.Sprintf("calls to port %s are reset on the way in, although a store listens there: a firewall on it, or a translated address", g.port)
	default:
		f.Summary = fmt.Sprintf("a firewall on it does not open port %s: nobody else gets an answer there", g.port)
	}
	return f
}

// open lets the peers' network in on the port. A rule that iptables puts first
// wins over what iptables has below it, and over nothing of firewalld.
func (g gathering) open() []string {
	command, from := "iptables", ""
	if network, known := g.network(); known {
		from = " -s " + network.String()
		if network.Addr().Is6() {
			command = "ip6tables"
		}
	}
	return []string{
		fmt.Sprintf("{ssh} sudo %s -I INPUT -p tcp%s --dport %s -j ACCEPT   # until the next reload of the firewall", command, from, g.port),
		fmt.Sprintf("{ssh} 'sudo firewall-cmd --permanent --add-port=%s/tcp && sudo firewall-cmd --reload'   # where firewalld rules", g.port),
		fmt.Sprintf("{ssh} sudo ufw allow %s/tcp   # where ufw rules", g.port),
	}
}

// network is the one on which the server's peers are.
func (g gathering) network() (network netip.Prefix, known bool) {
	if g.server.Net == nil {
		return netip.Prefix{}, false
	}
	return networkOf(g.server, launch.PeerAddress(g.server).Address)
}

// cutOff: these nodes do not get through where others do.
func (g gathering) cutOff(outcome facts.PathOutcome, callers []string) Finding {
	f := Finding{
		Nodes:    callers,
		Summary:  fmt.Sprintf("no answer from the store on %s at %s", g.server.Name, g.endpoint()),
		Got:      g.otherPorts(callers),
		Want:     fmt.Sprintf("TCP port %s of %s open to these nodes too", g.port, g.server.Name),
		WouldSee: g.timedOut(),
		Fix:      []string{"{ssh} ip route get " + shellWord(g.address(g.caller(callers[0]))), "{ssh} sudo iptables -S OUTPUT", fmt.Sprintf("ssh %s sudo iptables -S INPUT", shellWord(g.server.Name))},
	}
	if f.Got == "" {
		f.Got = g.part(g.caller(callers[0])).Error
	}
	switch outcome {
	case facts.PathUnroutable:
		f.Summary = fmt.Sprintf("has no route to %s, where the ranks will meet", g.host)
		f.Want, f.WouldSee, f.Fix = "a route there", g.rejected("101 - Network is unreachable"), f.Fix[:1]
	case facts.PathRejected:
		f.Summary = fmt.Sprintf("is rejected on the way to the store on %s at %s", g.server.Name, g.endpoint())
		f.WouldSee = g.rejected("113 - No route to host")
	case facts.PathRefused, facts.PathReset:
		f.Summary = fmt.Sprintf("is refused by the store on %s at %s, which listens", g.server.Name, g.endpoint())
	}
	return f
}

func (g gathering) caller(name string) *facts.Node {
	return g.nodes[slices.IndexFunc(g.nodes, func(n *facts.Node) bool { return n.Name == name })]
}

// otherPorts says whether the server answers the callers elsewhere, which
// makes it a matter of this port.
func (g gathering) otherPorts(callers []string) string {
	for _, node := range g.nodes {
		if !slices.Contains(callers, node.Name) {
			continue
		}
		if node.Mesh == nil {
			return ""
		}
		if _, answered := node.Mesh.Reached[g.server.Name]; !answered {
			return ""
		}
	}
	return fmt.Sprintf("other ports of %s answer the same nodes", g.server.Name)
}
