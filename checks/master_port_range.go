package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// portRange judges a free port by its number.
func (p portPlace) portRange() []Finding {
	node, port := p.node, p.Port
	commands := []fix.Command{p.command(freePort(node.Net, launch.DefaultMasterPort-1))}
	low, high := node.Net.EphemeralLow, node.Net.EphemeralHigh
	switch {
	case port < 1024 && (node.Host == nil || node.Host.User != "root"):
		f := Finding{
			Nodes:    []string{node.Name},
			Summary:  fmt.Sprintf("port %d is below 1024, which only root may bind", port),
			WouldSee: "failed to bind … (errno: 13 - Permission denied)",
			Remedy:   commands,
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
