// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

// timedOut returns torch's error for a store that does not answer. meeting.rejected returns torch's
// error for a store that refuses at once.
func timedOut[P int | string](host string, port P) string {
	return fmt.Sprintf("The client socket has timed out after … while trying to connect to (%s, %v).", host, port)
}

func (g meeting) timedOut() string { return timedOut(g.host, g.port) }

func (g meeting) rejected(errno string) string {
	return fmt.Sprintf("The client socket has failed to connect to any network address of (%s, %s). … (errno: %s).", g.host, g.port, errno)
}

// unserved returns the finding for a server that could bind no port. master-port-free did not see
// the reason.
func (g meeting) unserved() []checks.Finding {
	look := fix.On("sudo ss -tlnp").As(fix.Look)
	if g.port != "" {
		look = fix.On("sudo ss -tanp sport = :%s", fix.Name(g.port)).As(fix.Look)
	}
	return []checks.Finding{{
		Nodes:    []string{g.server.Name},
		Summary:  fmt.Sprintf("the store cannot listen at %s", g.endpoint()),
		Got:      g.part(g.server).Error,
		Want:     "a port that can be bound on all addresses",
		WouldSee: "The server socket has failed to listen on any local network address … EADDRINUSE",
		Remedy:   []fix.Command{look},
	}}
}

// taken returns an unknown finding for a port that another preflight uses for its own rendezvous
// test. Whether the port is free after that test is unknown.
func (g meeting) taken() checks.Finding {
	seen := g.part(g.server)
	return checks.UnknownFor(g.server, fmt.Sprintf("no rendezvous at %s: after %.0f s the port was still %s; run preflight again when it is free", g.endpoint(), seen.Waited, seen.Error))
}

// noOneServer returns the finding for a rendezvous that has no server or several. In c10d mode,
// every node decides from its own name whether it is the host.
func (g meeting) noOneServer() []checks.Finding {
	var better []fix.Command
	if name := g.ownName(); name != "" {
		better = []fix.Command{fix.Here("torchrun --rdzv_backend=c10d --rdzv_endpoint=%s …", fix.Word(name+":"+g.port))}
	}
	if why, is := names.UnknownTo(g.nodes, g.host); is {
		return []checks.Finding{unknownName(g.view, g.host, g.port, why, better)}
	}
	f := checks.Finding{
		Nodes:    checks.NamesOf(g.nodes),
		Summary:  fmt.Sprintf("no node recognises itself as the host of %s: none serves the store", g.endpoint()),
		Got:      g.reasons(g.nodes),
		Want:     "exactly one node whose hostname is the endpoint or leads to it",
		WouldSee: g.timedOut(),
		Remedy:   []fix.Command{fix.On("hostname; getent ahosts $(hostname)").As(fix.Look)},
	}
	if len(g.servers) > 1 {
		f.Summary = fmt.Sprintf("%d nodes each serve a store for %s and wait for the others", len(g.servers), g.endpoint())
		f.Nodes, f.Got = checks.NamesOf(g.servers), g.reasons(g.servers)
		f.WouldSee = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
	} else if host := g.holder(); host != nil {
		f.Nodes, f.Got = []string{host.Name}, g.reasons([]*facts.Node{host})
		f.Summary = fmt.Sprintf("does not recognise itself as the host of %s, so no node serves the store", g.endpoint())
		for _, unanswered := range names.Unanswered(host) {
			f.Got, f.Remedy = f.Got+"; "+strings.TrimPrefix(unanswered.Summary, "names: "), unanswered.Remedy
		}
	}
	f.Remedy = append(f.Remedy, better...)
	return []checks.Finding{f}
}

// holder returns the only node to which the endpoint leads, or nil if there is none.
func (g meeting) holder() *facts.Node {
	holders := compare.Without(g.nodes, func(node *facts.Node) bool {
		return node.Net == nil || !names.LeadsTo(append(slices.Clone(g.part(node).Addresses), g.host), node)
	})
	if len(holders) != 1 {
		return nil
	}
	return holders[0]
}

// reasons lists the rules by which the nodes decided whether they are the host of the rendezvous.
func (g meeting) reasons(nodes []*facts.Node) string {
	parts := text.Map(compare.GroupBy(nodes, func(n *facts.Node) string { return g.part(n).ServesWhy }), func(group compare.Group) string { return hostfile.Fold(group.Nodes) + ": " + group.Value })
	return strings.Join(atMost(4, parts, "and %d more"), "; ")
}

// ownName returns the hostname of node 0. It returns "" if another node has the same hostname, or
// if not all nodes resolve it.
func (g meeting) ownName() string {
	first := names.FirstHost(g.view)
	node := g.caller(first)
	if node == nil || node.Names == nil {
		return ""
	}
	own := node.Names.Own
	for _, node := range g.nodes {
		lookup, asked := names.LookupOf(node, own)
		isTwin := node.Name != first && node.Names != nil && node.Names.Own == own
		if isTwin || !asked || len(lookup.Addresses) == 0 {
			return ""
		}
	}
	return own
}

// stopped returns findings for nodes that did not find the store, reached another program, or got
// no answer in time.
func (g meeting) stopped(nodes []*facts.Node) []checks.Finding {
	var findings []checks.Finding
	for _, node := range nodes {
		seen := g.part(node)
		f := checks.Finding{Nodes: []string{node.Name}, Got: seen.Error}
		switch seen.Failed {
		case facts.HopResolve:
			f.Summary = fmt.Sprintf("the master address %s does not resolve", g.host)
			f.WouldSee = names.Unresolved(g.host, g.port)
			f.Remedy = []fix.Command{names.LookUp(g.host).As(fix.Look)}
			if address := nccl.PeerAddress(g.server).Address; text.IsPlain(address) && text.IsPlain(g.host) {
				f.Remedy = append(f.Remedy, fix.On("echo %s %s | sudo tee -a /etc/hosts", fix.Host(address), fix.Host(g.host)))
			}
			names.ReadHosts(node, false, g.host, &f)
		case facts.HopValidate:
			f.Summary = fmt.Sprintf("another program than the store on %[2]s answers at %[1]s", g.endpoint(), g.server.Name)
			f.Got = strings.Trim(seen.Address+": "+seen.Error, ": ")
			f.Want = "an answer from the store: no second machine, proxy or translation on the way"
			f.WouldSee = fmt.Sprintf("TCP client failed to connect/validate to host %s:%s - retrying", g.host, g.port)
			f.Remedy = []fix.Command{fix.On("getent ahosts %s", fix.Host(g.host)).As(fix.Look), fix.On("sudo ss -tanp sport = :%s", fix.Name(g.port)).At(g.server.Name).As(fix.Look)}
		case facts.HopJoin:
			f.Summary = fmt.Sprintf("connects to the store on %s, but the store does not count it", g.server.Name)
			f.WouldSee = "Connection reset by peer, or a timeout of the store"
			f.Remedy = []fix.Command{fix.On("ping -c 5 %s", fix.Host(g.host)).As(fix.Look)}
		}
		g.blame(node, &f)
		findings = append(findings, f)
	}
	return findings
}

// tooFew skips a rendezvous in which nodes waited for other nodes that took no part. Another
// finding says why those nodes took no part.
func (g meeting) tooFew() []checks.Finding {
	took := checks.NamesOf(g.nodes)
	absent := slices.DeleteFunc(checks.NamesOf(g.view.Everywhere()), func(name string) bool { return slices.Contains(took, name) })
	return checks.Skipped(fmt.Sprintf("not all nodes met at %s: %s did not take part", g.endpoint(), hostfile.Fold(absent)))
}

// unmet returns the finding for a rendezvous to which every node connected although the store did
// not count all of them.
func (g meeting) unmet(waiting []*facts.Node) []checks.Finding {
	took := checks.NamesOf(g.nodes)
	late := checks.NamesOf(waiting)
	if missing := g.part(g.server).Missing; len(missing) > 0 {
		late = compare.Without(missing, func(name string) bool { return !slices.Contains(took, name) })
	}
	if len(late) == 0 {
		return g.tooFew()
	}
	said := compare.Without(late, func(name string) bool {
		return name == g.server.Name || !slices.ContainsFunc(waiting, func(n *facts.Node) bool { return n.Name == name && proof.IsCounted(g.part(n)) })
	})
	if len(said) > 1 && 2*len(said) > len(took)-1 { // the counts that the clients report contradict the server's count
		return []checks.Finding{{
			Nodes:    []string{g.server.Name},
			Summary:  fmt.Sprintf("the store on %[2]s counted %[1]s but does not let them continue", hostfile.Fold(said), g.server.Name),
			Got:      g.part(waiting[0]).Error,
			WouldSee: fmt.Sprintf("Timed out after … seconds waiting for clients. %d/%d clients joined.", len(g.nodes)-len(said), len(g.nodes)),
			Remedy:   []fix.Command{fix.On("uptime").As(fix.Look)},
		}}
	}
	return []checks.Finding{{
		Nodes:    late,
		Summary:  fmt.Sprintf("reached the store on %s, but was not counted there in time", g.server.Name),
		Got:      g.part(waiting[0]).Error,
		WouldSee: fmt.Sprintf("Timed out after … seconds waiting for clients. %d/%d clients joined.", len(g.nodes)-len(late), len(g.nodes)),
		Remedy:   []fix.Command{fix.On("uptime").As(fix.Look), fix.On("ping -c 5 %s", fix.Host(g.host)).As(fix.Look)},
	}}
}

// unconnected returns findings for nodes that could not connect. It blames the server if no other
// node could connect, otherwise the callers.
func (g meeting) unconnected(nodes []*facts.Node) []checks.Finding {
	var findings []checks.Finding
	var misled, twins []*facts.Node
	for _, node := range nodes {
		if !g.isWrongAddress(node) {
			continue
		}
		misled = append(misled, node)
		if hasName(node, g.host) && hasName(g.server, g.host) {
			twins = append(twins, node)
		} else {
			findings = append(findings, g.misled(node))
		}
	}
	if len(twins) > 0 {
		findings = append(findings, g.oneHostname(twins))
	}
	nodes = compare.Without(nodes, func(n *facts.Node) bool { return slices.Contains(misled, n) })
	others := compare.Without(nodes, func(n *facts.Node) bool { return n == g.server })
	if len(others) > 0 && len(others) == len(g.nodes)-1 {
		nodes = others // the failures of the other nodes say more than the server's own
		if g.elsewhere != nil {
			return append(findings, g.foreign(others))
		}
	}
	for _, group := range compare.GroupBy(nodes, func(n *facts.Node) string { return string(g.part(n).Outcome) }) {
		outcome := facts.PathOutcome(group.Value)
		callers := compare.Without(group.Nodes, func(name string) bool { return name == g.server.Name })
		switch {
		case len(callers) == 0:
			findings = append(findings, g.serverCutOff(outcome))
		case len(callers) == len(g.nodes)-1 && outcome != facts.PathUnroutable && outcome != facts.PathBroken:
			findings = append(findings, g.closed(outcome, callers))
		default:
			findings = append(findings, g.cutOff(outcome, callers))
		}
	}
	return findings
}

// misled returns the finding for a node that connects to another machine instead of the server.
func (g meeting) misled(node *facts.Node) checks.Finding {
	return checks.Finding{
		Nodes:    []string{node.Name},
		Summary:  fmt.Sprintf("resolves the master address %s to a machine other than %s", g.host, g.server.Name),
		Got:      strings.Join(g.part(node).Addresses, " "),
		Want:     nccl.PeerAddress(g.server).Address,
		WouldSee: g.timedOut(),
		Remedy:   []fix.Command{names.LookUp(g.host).As(fix.Look), names.Correct(g.host, nccl.PeerAddress(g.server).Address)},
	}
}

// hasName reports whether a name is the node's own hostname, as torchrun gives it to the other nodes.
func hasName(node *facts.Node, name string) bool {
	return node.Names != nil && (node.Names.Own == name || node.Names.FQDN == name || node.Names.Published == name)
}

// oneHostname returns the finding for nodes that connect to themselves, because they have the
// hostname of the server.
func (g meeting) oneHostname(twins []*facts.Node) checks.Finding {
	resolved := text.Map(twins, func(n *facts.Node) string { return n.Name + " to " + strings.Join(g.part(n).Addresses, " ") })
	return checks.Finding{
		Nodes:    checks.NamesOf(twins),
		Summary:  fmt.Sprintf("has the hostname of %s, %s, so ranks connect to their own node", g.server.Name, g.host),
		Got:      g.host + " resolves on " + strings.Join(atMost(4, resolved, "%d more"), ", on "),
		Want:     "a hostname of its own on every node",
		WouldSee: g.timedOut(),
		Remedy: []fix.Command{
			fix.Note("give each of {nodes} a name of its own with sudo hostnamectl set-hostname, or a container with --hostname, and let it resolve to the node's address"),
			fix.Note("or start torchrun on each node with --local-addr and the node's address: then no name is looked up"),
		},
	}
}

// serverCutOff returns the finding for a server that cannot reach itself. That is a failure because
// rank 0 is also a client of its own store.
func (g meeting) serverCutOff(outcome facts.PathOutcome) checks.Finding {
	return checks.Finding{
		Nodes:    []string{g.server.Name},
		Summary:  fmt.Sprintf("serves the store, but cannot reach it at %s itself", g.endpoint()),
		Got:      cmp.Or(g.part(g.server).Error, string(outcome)),
		Want:     "an answer from its own address: no firewall, and no translation that works only from outside",
		WouldSee: g.timedOut(),
		Remedy:   []fix.Command{fix.On("ip route get %s", g.address(g.server)).As(fix.Look), fix.On("sudo iptables -S INPUT").As(fix.Look)},
	}
}

// cutOff returns the finding for nodes that cannot connect although other nodes can.
func (g meeting) cutOff(outcome facts.PathOutcome, callers []string) checks.Finding {
	first := g.caller(callers[0])
	f := checks.Finding{
		Nodes:    callers,
		Summary:  fmt.Sprintf("no answer from the store on %s at %s", g.server.Name, g.endpoint()),
		Got:      cmp.Or(g.otherPorts(callers), g.part(first).Error),
		Want:     fmt.Sprintf("TCP port %s of %s open to these nodes", g.port, g.server.Name),
		WouldSee: g.timedOut(),
		Remedy:   []fix.Command{fix.On("ip route get %s", g.address(first)).As(fix.Look), fix.On("sudo iptables -S OUTPUT").As(fix.Look), fix.On("sudo iptables -S INPUT").At(g.server.Name).As(fix.Look)},
	}
	switch outcome {
	case facts.PathUnroutable:
		f.Summary = fmt.Sprintf("has no route to the master address %s", g.host)
		f.Want, f.WouldSee, f.Remedy = "a route there", g.rejected("101 - Network is unreachable"), f.Remedy[:1]
	case facts.PathUnresolved:
		f.Summary = fmt.Sprintf("no answer to ARP for %s at %s, or for the router to it", g.server.Name, g.endpoint())
		f.Want, f.WouldSee, f.Remedy = "an answer to ARP", g.rejected("113 - No route to host"), []fix.Command{fix.On("ip neigh").As(fix.Look), f.Remedy[0]}
	case facts.PathRejected:
		f.Summary = fmt.Sprintf("a firewall rejects connections to the store on %s at %s", g.server.Name, g.endpoint())
		f.WouldSee = g.rejected("113 - No route to host")
	case facts.PathRefused, facts.PathReset:
		f.Summary = fmt.Sprintf("the store on %s at %s refuses connections, although it listens", g.server.Name, g.endpoint())
	}
	g.blame(first, &f)
	return f
}

func (g meeting) caller(name string) *facts.Node {
	return names.First(g.nodes, func(n *facts.Node) bool { return n.Name == name })
}

// address returns the address to which a node connects for the endpoint.
func (g meeting) address(node *facts.Node) fix.Host {
	return fix.Host(append(slices.Clone(g.part(node).Addresses), g.host)[0])
}

// otherPorts returns a text that says that other ports of the server answer the callers. The cause
// is then this port. It returns "" if no other port answers.
func (g meeting) otherPorts(callers []string) string {
	for _, name := range callers {
		mesh := g.caller(name).Mesh
		if mesh == nil {
			return ""
		}
		if _, answered := mesh.Reached[g.server.Name]; !answered {
			return ""
		}
	}
	return fmt.Sprintf("other ports of %s answer the same nodes", g.server.Name)
}

// foreign returns the finding for an endpoint that is no address of the server and at which no node
// can connect. The address may belong to a load balancer or an address translation.
func (g meeting) foreign(callers []*facts.Node) checks.Finding {
	place := strings.Join(g.elsewhere, " ")
	if place != g.host {
		place = fmt.Sprintf("%s (%s)", g.host, place)
	}
	outcome := compare.GroupBy(callers, func(n *facts.Node) string { return string(g.part(n).Outcome) })[0].Value
	f := checks.Finding{
		Nodes:    []string{g.server.Name},
		Summary:  fmt.Sprintf("ranks will meet at %s, which does not lead to the store on %s", place, g.server.Name),
		Got:      fmt.Sprintf("connections to port %s there are %s", g.port, outcome),
		WouldSee: g.timedOut(),
	}
	f.Want, f.Remedy = masterPlace{g.view, g.server, g.view.Launch.Endpoint(g.server)}.remedy()
	if place != g.host {
		f.Remedy = append(f.Remedy, names.LookUp(g.host).As(fix.Look))
	}
	return f
}

// closed returns the finding for a server that no other node can reach.
func (g meeting) closed(outcome facts.PathOutcome, callers []string) checks.Finding {
	f := checks.Finding{
		Nodes:    []string{g.server.Name},
		Got:      g.otherPorts(callers),
		Want:     fmt.Sprintf("TCP port %s open to all nodes", g.port),
		WouldSee: g.timedOut(),
		Remedy:   g.open(),
	}
	switch outcome {
	case facts.PathUnresolved:
		f.Summary = "no machine answers ARP for its address"
		f.WouldSee = g.rejected("113 - No route to host")
		f.Remedy = []fix.Command{fix.On("ip neigh show %s", g.address(g.caller(callers[0]))).At(callers[0]).As(fix.Look), fix.On("ip -br addr").As(fix.Look)}
	case facts.PathRejected:
		f.Summary = fmt.Sprintf("its firewall rejects connections to port %s", g.port)
		f.WouldSee = g.rejected("113 - No route to host")
	case facts.PathRefused, facts.PathReset:
		f.Summary = fmt.Sprintf("port %s resets connections though the store listens: firewall or translation", g.port)
	default:
		f.Summary = fmt.Sprintf("its firewall drops connections to port %s", g.port)
	}
	g.blame(g.caller(callers[0]), &f)
	return f
}

// open returns the commands that allow connections from the peers' network to the port. A first
// rule of iptables overrides later rules of iptables, but not those of firewalld.
func (g meeting) open() []fix.Command {
	command, from := fix.Code("iptables"), fix.Code("")
	if network, known := names.NetworkOf(g.server, nccl.PeerAddress(g.server).Address); known {
		from = fix.Code(" -s %s", fix.Name(network.String()))
		if network.Addr().Is6() {
			command = fix.Code("ip6tables")
		}
	}
	return remedy.Firewall(g.server,
		fix.On("sudo %s -I INPUT -p tcp%s --dport %s -j ACCEPT   # until the firewall reloads", command, from, fix.Name(g.port)),
		fix.On("sudo firewall-cmd --permanent --add-port=%s/tcp && sudo firewall-cmd --reload", fix.Name(g.port)),
		fix.On("sudo ufw allow %s/tcp", fix.Name(g.port)),
	)
}
