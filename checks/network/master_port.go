package network

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/facts"
	"preflight/launch"
)

var MasterPortFree = checks.Check{
	ID:       "master-port-free",
	Title:    "nobody holds the master port on node 0",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Doc: "Rank 0, on the first active host, binds the master port on all addresses, so that a listener on any one address is in its way: " +
		"a stale run, a second job, another service. DeepSpeed never looks. Ports below 1024 need root; a port that the kernel also hands out for " +
		"outgoing connections is free only by luck.",
	WouldSee: "The server socket has failed to listen on any local network address … EADDRINUSE (errno: 98 - Address already in use)",
	Run:      judgeMasterPort,
}

func judgeMasterPort(view checks.View) []checks.Finding {
	node, findings := names.NodeZero(view)
	if node == nil {
		return findings
	}
	meeting := view.Launch.Endpoint(node)
	port := meeting.Port
	if port == 0 {
		return checks.Skipped("the launch names no master port")
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

// portPlace is the port the ranks will meet at, on the node that has to bind it.
type portPlace struct {
	view checks.View
	node *facts.Node
	role string // what the node is to the launch
	launch.Endpoint
}

func (p portPlace) held(listener facts.Listener) checks.Finding {
	f := checks.Finding{
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

// portRange judges a free port by its number.
func (p portPlace) portRange() []checks.Finding {
	node, port := p.node, p.Port
	commands := []fix.Command{p.command(freePort(node.Net, launch.DefaultMasterPort-1))}
	low, high := node.Net.EphemeralLow, node.Net.EphemeralHigh
	switch {
	case port < 1024 && (node.Host == nil || node.Host.User != "root"):
		f := checks.Finding{
			Nodes:    []string{node.Name},
			Summary:  fmt.Sprintf("port %d is below 1024, which only root may bind", port),
			WouldSee: "failed to bind … (errno: 13 - Permission denied)",
			Remedy:   commands,
		}
		if node.Host == nil || node.Host.Container != "" { // containers often lift the rule
			f.Verdict = checks.Warn
		}
		return []checks.Finding{f}
	case port >= low && port <= high && !reserved(node.Net.Reserved, port):
		return []checks.Finding{{
			Verdict: checks.Warn,
			Nodes:   []string{node.Name},
			Summary: fmt.Sprintf("port %d lies in the range the kernel takes outgoing ports from", port),
			Got:     fmt.Sprintf("net.ipv4.ip_local_port_range is %d to %d", low, high),
			Remedy:  append(commands, fix.On("sudo sysctl -w net.ipv4.ip_local_reserved_ports=%s", fix.Number(port))),
		}}
	}
	return nil
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
