package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks/fix"
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
	others := slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return n == g.server })
	if len(others) > 0 && len(others) == len(g.nodes)-1 {
		nodes = others // that nobody else gets in either says more
		if g.elsewhere != nil {
			return append(findings, g.foreign(others))
		}
	}
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
		Remedy:   []fix.Command{lookUpName(g.host), fix.On("sudoedit /etc/hosts")},
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
		Remedy:   []fix.Command{fix.On("ip route get %s", fix.Host(g.address(g.server))), fix.On("sudo iptables -S INPUT")},
	}
}

// cutOff: these nodes do not get through where others do.
func (g gathering) cutOff(outcome facts.PathOutcome, callers []string) Finding {
	f := Finding{
		Nodes:    callers,
		Summary:  fmt.Sprintf("no answer from the store on %s at %s", g.server.Name, g.endpoint()),
		Got:      g.otherPorts(callers),
		Want:     fmt.Sprintf("TCP port %s of %s open to these nodes too", g.port, g.server.Name),
		WouldSee: g.timedOut(),
		Remedy:   []fix.Command{fix.On("ip route get %s", fix.Host(g.address(g.caller(callers[0])))), fix.On("sudo iptables -S OUTPUT"), fix.On("sudo iptables -S INPUT").At(g.server.Name)},
	}
	if f.Got == "" {
		f.Got = g.part(g.caller(callers[0])).Error
	}
	switch outcome {
	case facts.PathUnroutable:
		f.Summary = fmt.Sprintf("has no route to %s, where the ranks will meet", g.host)
		f.Want, f.WouldSee, f.Remedy = "a route there", g.rejected("101 - Network is unreachable"), f.Remedy[:1]
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
