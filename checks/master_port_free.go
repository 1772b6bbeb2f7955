package checks

import (
	"fmt"
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

var masterPortFree = Check{
	ID:       "master-port-free",
	Title:    "nobody holds the master port on node 0",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Doc: "Rank 0, on the first active host, binds the master port on all addresses, so that a listener on any one address is in its way: " +
		"a stale run, a second job, another service. DeepSpeed never looks. Ports below 1024 need root; a port that the kernel also hands out for " +
		"outgoing connections is free only by luck.",
	WouldSee: "The server socket has failed to listen on any local network address … EADDRINUSE (errno: 98 - Address already in use)",
	Run:      judgeMasterPort,
}

func judgeMasterPort(view View) []Finding {
	node, findings := nodeZero(view)
	if node == nil {
		return findings
	}
	meeting := view.Launch.Meeting(node)
	port := meeting.Port
	if port == 0 {
		return skip("the launch names no master port")
	}
	p := portPlace{view, node, "node 0", meeting}
	if home := (masterPlace{view, node, meeting}).home(); home != nil && home != node {
		p.node, p.role = home, "the node that serves the store"
	}
	node = p.node
	for _, listener := range node.Net.Listening {
		if listener.Port == port {
			findings = append(findings, p.held(listener))
			break // the same holder as a rule listens on :: too
		}
	}
	return append(findings, p.portRange()...)
}

// nodeZero is the node of rank 0. Where it did not show what the check needs its
// own unknown says why; where it is no node of the fleet the finding does.
func nodeZero(view View) (*facts.Node, []Finding) {
	first := firstHost(view)
	for _, node := range view.Nodes {
		if node.Name == first {
			return node, nil
		}
	}
	if slices.ContainsFunc(view.All, func(n facts.Node) bool { return n.Name == first }) {
		return nil, nil
	}
	return nil, []Finding{{Verdict: Unknown, Nodes: []string{first}, Summary: "node 0 of the launch is not among the nodes looked at"}}
}

// portPlace is the port the ranks will meet at, on the node that has to bind it.
type portPlace struct {
	view View
	node *facts.Node
	role string // what the node is to the launch
	launch.Meeting
}

func (p portPlace) held(listener facts.Listener) Finding {
	f := Finding{
		Nodes:   []string{p.node.Name},
		Summary: fmt.Sprintf("port %d is taken on %s", listener.Port, p.role),
		Got:     fmt.Sprintf("a process of uid %d listens on %s", listener.UID, listener.Address),
		Remedy: []fix.Command{
			fix.On("sudo ss -tlnp sport = :%s", fix.Number(listener.Port)),
			p.command(freePort(p.node.Net, listener.Port)),
		},
	}
	isSSH := p.node.SSH != nil && p.node.SSH.Port == listener.Port
	switch {
	case listener.PID != 0 && isSSH: // the way in is nothing to end
		f.Got = fmt.Sprintf("%q (pid %d) listens on %s: the way in", listener.Command, listener.PID, listener.Address)
	case listener.PID != 0:
		f.Got = fmt.Sprintf("%q (pid %d, uid %d) listens on %s", listener.Command, listener.PID, listener.UID, listener.Address)
		f.Remedy = []fix.Command{fix.On("ps -fp %s", fix.Number(listener.PID)), fix.On("kill %s   # if it is left over from an earlier run", fix.Number(listener.PID)), f.Remedy[1].Remark("if it is to stay")}
	}
	return f
}

// command has the ranks meet on another port.
func (p portPlace) command(port int) fix.Command {
	if p.view.Launch.Rendezvous == launch.RendezvousDeepSpeed || p.view.Launch.Rendezvous == "" {
		return fix.Here("deepspeed --master_port=%s …", fix.Number(port))
	}
	return meetAt(p.view, p.Host, port)
}
