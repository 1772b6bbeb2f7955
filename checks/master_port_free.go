package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

var masterPortFree = Check{
	ID:       "master-port-free",
	Title:    "nobody holds the master port on node 0",
	Severity: Error,
	Needs:    []facts.Section{facts.SectionNet},
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
		Fix: []string{
			fmt.Sprintf("{ssh} sudo ss -tlnp sport = :%d", listener.Port),
			p.command(freePort(p.node.Net, listener.Port)),
		},
	}
	if listener.PID != 0 {
		f.Got = fmt.Sprintf("%q (pid %d, uid %d) listens on %s", listener.Command, listener.PID, listener.UID, listener.Address)
		f.Fix = []string{fmt.Sprintf("{ssh} ps -fp %d", listener.PID), fmt.Sprintf("{ssh} kill %d", listener.PID), f.Fix[1]}
	}
	return f
}

// portRange judges a free port by its number.
func (p portPlace) portRange() []Finding {
	node, port := p.node, p.Port
	fix := []string{p.command(freePort(node.Net, launch.DefaultMasterPort-1))}
	low, high := node.Net.EphemeralLow, node.Net.EphemeralHigh
	switch {
	case port < 1024 && (node.Host == nil || node.Host.User != "root"):
		f := Finding{
			Nodes:    []string{node.Name},
			Summary:  fmt.Sprintf("port %d is below 1024, which only root may bind", port),
			WouldSee: "failed to bind … (errno: 13 - Permission denied)",
			Fix:      fix,
		}
		if node.Host == nil || node.Host.Container != "" { // containers often lift the rule
			f.Verdict = Warn
		}
		return []Finding{f}
	case port >= low && port <= high && !reserved(node.Net.Reserved, port):
		return []Finding{{
			Verdict: Warn,
			Nodes:   []string{node.Name},
			Summary: fmt.Sprintf("port %d lies in the range the kernel takes outgoing ports from", port),
			Got:     fmt.Sprintf("net.ipv4.ip_local_port_range is %d to %d", low, high),
			Fix:     append(fix, fmt.Sprintf("{ssh} sudo sysctl -w net.ipv4.ip_local_reserved_ports=%d", port)),
		}}
	}
	return nil
}

// command has the ranks meet on another port.
func (p portPlace) command(port int) string {
	if p.view.Launch.Rendezvous == launch.RendezvousDeepSpeed || p.view.Launch.Rendezvous == "" {
		return fmt.Sprintf("deepspeed --master_port=%d …", port)
	}
	return meetAt(p.view, p.Host, port)
}

// freePort is the first port after another that nobody listens on and the
// kernel does not hand out.
func freePort(net *facts.Net, after int) int {
	const least, count = 1024, 65536 - 1024
	for i := range count {
		port := least + (max(after, least)-least+1+i)%count
		isHeld := slices.ContainsFunc(net.Listening, func(l facts.Listener) bool { return l.Port == port })
		if !isHeld && (port < net.EphemeralLow || port > net.EphemeralHigh) {
			return port
		}
	}
	return after
}

// reserved reads net.ipv4.ip_local_reserved_ports ("8080,29500-29510").
func reserved(list string, port int) bool {
	for item := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(item, "-")
		if !isRange {
			high = low
		}
		from, errLow := strconv.Atoi(low)
		to, errHigh := strconv.Atoi(high)
		if errLow == nil && errHigh == nil && from <= port && port <= to {
			return true
		}
	}
	return false
}
