package checks

import (
	"fmt"
	"net/netip"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// foreign: nobody gets in, and the endpoint is no address of the server. What
// holds it, a load balancer or a translation, does not lead there.
func (g gathering) foreign(callers []*facts.Node) Finding {
	place := strings.Join(g.elsewhere, " ")
	if place != g.host {
		place = fmt.Sprintf("%s (%s)", g.host, place)
	}
	outcome := groupBy(callers, func(n *facts.Node) string { return string(g.part(n).Outcome) })[0].Value
	f := Finding{
		Nodes:    []string{g.server.Name},
		Summary:  fmt.Sprintf("the ranks will meet at %s, no address of %s, and nobody gets through to its store there", place, g.server.Name),
		Got:      fmt.Sprintf("calls to port %s there are %s", g.port, outcome),
		WouldSee: g.timedOut(),
	}
	f.Want, f.Remedy = masterPlace{g.view, g.server, g.view.Launch.Meeting(g.server)}.cure()
	if place != g.host {
		f.Remedy = append(f.Remedy, lookUpName(g.host))
	}
	return f
}

// closed: nobody gets in from outside.
func (g gathering) closed(outcome facts.PathOutcome, callers []string) Finding {
	f := Finding{
		Nodes:    []string{g.server.Name},
		Got:      g.otherPorts(callers),
		Want:     fmt.Sprintf("TCP port %s open to all nodes", g.port),
		WouldSee: g.timedOut(),
		Remedy:   g.open(),
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
func (g gathering) open() []fix.Command {
	command, from := fix.Code("iptables"), fix.Code("")
	if network, known := g.network(); known {
		from = fix.Code(" -s %s", fix.Name(network.String()))
		if network.Addr().Is6() {
			command = fix.Code("ip6tables")
		}
	}
	return []fix.Command{
		fix.On("sudo %s -I INPUT -p tcp%s --dport %s -j ACCEPT   # until the next reload of the firewall", command, from, fix.Name(g.port)),
		fix.On("sudo firewall-cmd --permanent --add-port=%s/tcp && sudo firewall-cmd --reload   # where firewalld rules", fix.Name(g.port)),
		fix.On("sudo ufw allow %s/tcp   # where ufw rules", fix.Name(g.port)),
	}
}

// network is the one on which the server's peers are.
func (g gathering) network() (network netip.Prefix, known bool) {
	if g.server.Net == nil {
		return netip.Prefix{}, false
	}
	return networkOf(g.server, launch.PeerAddress(g.server).Address)
}
