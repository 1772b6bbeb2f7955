package network

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch/nccl"
)

// timedOut is what torch says of a store that it cannot get through to, and
// meeting.rejected what it says where an error comes at once.
func timedOut(host string, port any) string {
	return fmt.Sprintf("The client socket has timed out after … while trying to connect to (%s, %v).", host, port)
}

func (g meeting) timedOut() string { return timedOut(g.host, g.port) }

func (g meeting) rejected(errno string) string {
	return fmt.Sprintf("The client socket has failed to connect to any network address of (%s, %s). … (errno: %s).", g.host, g.port, errno)
}

// unserved: no port could be bound, by what master-port-free did not see.
func (g meeting) unserved() []checks.Finding {
	look := fix.On("sudo ss -tlnp")
	if g.port != "" {
		look = fix.On("sudo ss -tlnp sport = :%s", fix.Name(g.port))
	}
	return []checks.Finding{{
		Nodes:    []string{g.server.Name},
		Summary:  fmt.Sprintf("no store can be served for %s", g.endpoint()),
		Got:      g.part(g.server).Error,
		Want:     "a port that can be bound on all addresses",
		WouldSee: "The server socket has failed to listen on any local network address … EADDRINUSE",
		Remedy:   []fix.Command{look},
	}}
}

// noOneServer: in c10d mode every node decides by its own name whether it is
// the host.
func (g meeting) noOneServer() []checks.Finding {
	f := checks.Finding{
		Nodes:    namesOf(g.nodes),
		Summary:  fmt.Sprintf("no node takes itself for the host of %s, so that nobody serves the store", g.endpoint()),
		Got:      g.whys(g.nodes),
		Want:     "one node whose hostname is the endpoint's, or leads to it",
		WouldSee: g.timedOut(),
		Remedy:   []fix.Command{fix.On("hostname; getent ahosts $(hostname)")},
	}
	if len(g.servers) > 1 {
		f.Summary = fmt.Sprintf("%d nodes take themselves for the host of %s, and each waits for all others in a store of its own", len(g.servers), g.endpoint())
		f.Nodes, f.Got = namesOf(g.servers), g.whys(g.servers)
		f.WouldSee = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
	}
	if name := g.ownName(); name != "" {
		f.Remedy = append(f.Remedy, fix.Here("torchrun --rdzv_backend=c10d --rdzv_endpoint=%s …", fix.Word(name+":"+g.port)))
	}
	return []checks.Finding{f}
}

// whys are the rules by which nodes took themselves for the host, or did not.
func (g meeting) whys(nodes []*facts.Node) string {
	var parts []string
	for _, group := range compare.GroupBy(nodes, func(n *facts.Node) string { return g.part(n).ServesWhy }) {
		parts = append(parts, hostfile.Fold(group.Nodes)+": "+group.Value)
	}
	const most = 4
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", len(parts)-most))
	}
	return strings.Join(parts, "; ")
}

// ownName is the hostname of node 0, where no other node has the same and all
// resolve it.
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

// stopped is about nodes that did not find the store, found somebody who does not speak
// its protocol, or got no answer from it in time.
func (g meeting) stopped(nodes []*facts.Node) []checks.Finding {
	var findings []checks.Finding
	for _, node := range nodes {
		seen := g.part(node)
		f := checks.Finding{Nodes: []string{node.Name}, Got: seen.Error}
		switch seen.Failed {
		case facts.HopResolve:
			f.Summary = fmt.Sprintf("%s, where the ranks will meet, does not resolve", g.host)
			f.WouldSee = names.Unresolved(g.host, g.port)
			f.Remedy = []fix.Command{names.LookUp(g.host)}
			if address := nccl.PeerAddress(g.server).Address; fix.IsPlain(address) && fix.IsPlain(g.host) {
				f.Remedy = append(f.Remedy, fix.On("echo %s %s | sudo tee -a /etc/hosts", fix.Host(address), fix.Host(g.host)))
			}
		case facts.HopValidate:
			f.Summary = fmt.Sprintf("at %s somebody else answers than the store on %s", g.endpoint(), g.server.Name)
			f.Got = strings.Trim(seen.Address+": "+seen.Error, ": ")
			f.Want = "the store: no second machine with this address, no proxy and no translation on the way"
			f.WouldSee = fmt.Sprintf("TCP client failed to connect/validate to host %s:%s - retrying", g.host, g.port)
			f.Remedy = []fix.Command{fix.On("getent ahosts %s", fix.Host(g.host)), fix.On("sudo ss -tlnp sport = :%s", fix.Name(g.port)).At(g.server.Name)}
		case facts.HopJoin:
			f.Summary = fmt.Sprintf("connects to the store on %s and is not counted there", g.server.Name)
			f.WouldSee = "Connection reset by peer, or a timeout of the store"
			f.Remedy = []fix.Command{fix.On("ping -c 5 %s", fix.Host(g.host))}
		}
		findings = append(findings, f)
	}
	return findings
}

// unmet: everybody got through, and not everybody was seen. Of nodes that took
// no part their own unknown says so.
func (g meeting) unmet(waiting []*facts.Node) []checks.Finding {
	took := namesOf(g.nodes)
	late := namesOf(waiting)
	if missing := g.part(g.server).Missing; len(missing) > 0 {
		late = slices.DeleteFunc(slices.Clone(missing), func(name string) bool { return !slices.Contains(took, name) })
	}
	if len(late) == 0 {
		return nil
	}
	return []checks.Finding{{
		Nodes:    late,
		Summary:  fmt.Sprintf("the store on %s is reached, and not all nodes were counted there within the time of the drill", g.server.Name),
		Got:      g.part(waiting[0]).Error,
		WouldSee: fmt.Sprintf("Timed out after … seconds waiting for clients. %d/%d clients joined.", len(g.nodes)-len(late), len(g.nodes)),
		Remedy:   []fix.Command{fix.On("uptime"), fix.On("ping -c 5 %s", fix.Host(g.host))},
	}}
}

func namesOf(nodes []*facts.Node) []string {
	var names []string
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}
