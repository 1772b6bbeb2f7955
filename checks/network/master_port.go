// SPDX-License-Identifier: Apache-2.0

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
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionNet},
	Volatile: true,
	Run:      judgeMasterPort,
}

func judgeMasterPort(view checks.View) []checks.Finding {
	node, findings := names.NodeZero(view)
	if node == nil {
		return findings
	}
	m := masterPlace{view, node, view.Launch.Endpoint(node)}
	if m.Port == 0 {
		return checks.Skipped("the launch has no master port")
	}
	role := "node 0"
	if home := m.home(); home != nil && home != node {
		node, role = home, "the node that serves the store"
	}
	// A process that listens on the IPv4 address usually also listens on "::", so one finding is
	// enough.
	if at := slices.IndexFunc(node.Net.Listening, func(l facts.Listener) bool { return l.Port == m.Port && !l.Preflight }); at >= 0 {
		findings = append(findings, m.portHeld(node, role, node.Net.Listening[at]))
	}
	return append(findings, m.portRange(node)...)
}

func (m masterPlace) portHeld(node *facts.Node, role string, listener facts.Listener) checks.Finding {
	f := checks.Finding{
		Nodes:   []string{node.Name},
		Summary: fmt.Sprintf("port %d is already in use on %s", listener.Port, role),
		Got:     fmt.Sprintf("a process owned by uid %d listens on %s", listener.UID, listener.Address),
		Remedy: []fix.Command{
			fix.On("sudo ss -tanp sport = :%s", fix.Number(listener.Port)).As(fix.Look),
			m.atPort(freePort(node.Net, listener.Port)),
		},
	}
	if m.view.Launch.Rendezvous == launch.RendezvousC10d {
		f.WouldSee = joinsOther
	}
	isSSH := node.SSH != nil && node.SSH.Port == listener.Port
	switch {
	case listener.PID != 0 && isSSH: // never suggest ending the SSH server
		f.Got = fmt.Sprintf("%q (pid %d) listens on %s: the SSH server", listener.Command, listener.PID, listener.Address)
	case listener.PID != 0:
		f.Got = fmt.Sprintf("%q (pid %d, uid %d) listens on %s", listener.Command, listener.PID, listener.UID, listener.Address)
		f.Remedy = []fix.Command{fix.On("ps -fp %s", fix.Number(listener.PID)).As(fix.Look), f.Remedy[1], fix.On("kill %s   # if it is left over from an earlier run", fix.Number(listener.PID)).As(fix.Or)}
	}
	return f
}

// joinsOther is what happens in c10d mode if the port is in use. torchrun tries to serve the store
// there, and if that fails it becomes a client of the process that has the port.
//
// Source: pytorch/pytorch 2.15, elastic/rendezvous/c10d_rendezvous_backend.py, _create_tcp_store.
const joinsOther = "no EADDRINUSE: torchrun joins the store of that process, then RendezvousTimeoutError, RendezvousClosedError, or the end of this launch when that process ends"

// atPort returns the command that makes the ranks use another port for the rendezvous.
func (m masterPlace) atPort(port int) fix.Command {
	if m.view.Launch.Rendezvous == launch.RendezvousDeepSpeed || m.view.Launch.Rendezvous == "" {
		return fix.Here("deepspeed --master_port=%s …", fix.Number(port))
	}
	return meetAt(m.view, m.Host, port)
}

// portRange returns the findings about the number of a free port.
func (m masterPlace) portRange(node *facts.Node) []checks.Finding {
	port := m.Port
	commands := []fix.Command{m.atPort(freePort(node.Net, launch.DefaultMasterPort-1))}
	low, high := node.Net.EphemeralLow, node.Net.EphemeralHigh
	switch {
	case port < 1024 && (node.Host == nil || node.Host.User != "root"):
		f := checks.Finding{
			Nodes:    []string{node.Name},
			Summary:  fmt.Sprintf("port %d is below 1024, which only root may bind", port),
			WouldSee: "failed to bind … (errno: 13 - Permission denied)",
			Remedy:   commands,
		}
		if node.Host == nil || node.Host.Container != "" { // containers often allow ports below 1024
			f.Verdict = checks.Warn
		}
		return []checks.Finding{f}
	case port >= low && port <= high && !reserved(node.Net.Reserved, port):
		return []checks.Finding{{
			Verdict: checks.Warn,
			Nodes:   []string{node.Name},
			Summary: fmt.Sprintf("port %d is in the kernel's port range for outgoing connections", port),
			Got:     fmt.Sprintf("net.ipv4.ip_local_port_range is %d to %d", low, high),
			Remedy:  append(commands, fix.On("sudo sysctl -w net.ipv4.ip_local_reserved_ports=%s", fix.Number(port)).As(fix.Or)),
		}}
	}
	return nil
}

// freePort returns the first port greater than after that no process listens on and that is outside
// the ephemeral range.
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

// reserved reports whether the list net.ipv4.ip_local_reserved_ports (such as "8080,29500-29510")
// contains a port.
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
