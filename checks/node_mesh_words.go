package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// finding puts a suspect into words.
func (m *meshCalls) finding(s suspect) Finding {
	paths := m.evidence(s)
	f := Finding{Nodes: s.nodes, WouldSee: m.wouldSee(paths[0]), Remedy: m.openFirewall(s)}
	var callees []string
	for _, path := range paths {
		callees = append(callees, path.Peer)
	}
	ports := m.ports(callees)
	switch s.kind {
	case everywhere:
		f.Summary = "no node reaches another on " + ports
	case between:
		f.Summary = fmt.Sprintf("%s do not reach each other on %s", foldSets(s.sets), ports)
	case inbound:
		f.Summary = "cannot be reached by anyone on " + ports
		if !s.all {
			f.Summary = fmt.Sprintf("cannot be reached by %s on %s, though others reach it", hostfile.Fold(s.peers), ports)
		}
	case outbound:
		f.Summary = "reaches nobody on " + ports
		if !s.all {
			f.Summary = fmt.Sprintf("cannot reach %s on %s, though it reaches others", hostfile.Fold(s.peers), ports)
		}
	case bothWays:
		f.Summary = "reaches nobody on " + ports + " and is reached by nobody there"
		if !s.all {
			f.Summary = fmt.Sprintf("does not reach %s on %s, nor do they reach it", hostfile.Fold(s.peers), ports)
		}
	case directions:
		f.Summary = m.oneDirection(s, ports)
	}
	port, answers := m.control(paths)
	cause := meshCauses[facts.PathOutcome(s.how)]
	switch {
	case answers && s.kind == inbound:
		f.Summary += fmt.Sprintf(", but port %d answers", port)
		cause = cmp.Or(hostFirewalls[facts.PathOutcome(s.how)], cause)
	case answers:
		f.Summary += fmt.Sprintf(", but port %d answers", port)
	case port != 0:
		f.Summary += fmt.Sprintf(", and port %d does not answer either", port)
	}
	f.Summary += ": " + cause
	f.Got = m.got(s, paths)
	if networks := m.networks(); len(networks) > 0 && len(networks) <= 4 {
		f.Want = fmt.Sprintf("TCP on %s open to %s, both ways", ports, strings.Join(networks, ", "))
	}
	return f
}

// meshCauses is what must be in the way, by what became of the calls.
var meshCauses = map[facts.PathOutcome]string{
	facts.PathDropped:  "a firewall drops the calls or their answers",
	facts.PathRefused:  "a firewall answers with a reset, or the address is translated; the drill did listen there",
	facts.PathRejected: "a firewall or router rejects the calls, or no machine on the link has the address",
	facts.PathReset:    "calls are accepted and then reset, by a firewall or proxy that looks into them",
	facts.PathSilent:   "calls are accepted and then get no answer, by a proxy or a machine that hangs",
}

// hostFirewalls is the same where another port of the callee does answer.
var hostFirewalls = map[facts.PathOutcome]string{
	facts.PathDropped:  "a host firewall drops the calls",
	facts.PathRefused:  "a host firewall answers with a reset, or the address is translated; the drill did listen there",
	facts.PathRejected: "a host firewall rejects the calls",
}

// oneDirection says of a single pair what the other direction does.
func (m *meshCalls) oneDirection(s suspect, ports string) string {
	lines := arrows(m.calls, s.failed)
	if len(lines) > 1 {
		return "calls between some nodes do not get through on " + ports
	}
	if len(s.failed) > 1 {
		return fmt.Sprintf("%s does not get through on %s", lines[0], ports)
	}
	call := m.calls[s.failed[0]]
	passes := func(other attempt) bool { return !other.failed && other.from == call.to && other.to == call.from }
	if slices.ContainsFunc(m.calls, passes) {
		return fmt.Sprintf("%s → %s passes, %[2]s → %[1]s %[4]s on %[3]s", call.to, call.from, ports, becomes[facts.PathOutcome(s.how)])
	}
	return fmt.Sprintf("%s does not get through on %s", lines[0], ports)
}

// becomes is what is said of a call that failed.
var becomes = map[facts.PathOutcome]string{
	facts.PathDropped: "is dropped", facts.PathRefused: "is refused", facts.PathRejected: "is rejected",
	facts.PathReset: "is reset", facts.PathSilent: "gets no answer",
}

func foldSets(sets [][]string) string {
	var folded []string
	for _, set := range sets {
		folded = append(folded, hostfile.Fold(set))
	}
	last := len(folded) - 1
	return strings.Join(folded[:last], ", ") + " and " + folded[last]
}

// ports is the range that the nodes listened in.
func (m *meshCalls) ports(nodes []string) string {
	low, high := 0, 0
	for _, name := range nodes {
		net := m.nodes[name].Net
		if net == nil || net.EphemeralHigh == 0 || high != 0 && (low != net.EphemeralLow || high != net.EphemeralHigh) {
			return "ephemeral ports"
		}
		low, high = net.EphemeralLow, net.EphemeralHigh
	}
	return fmt.Sprintf("ports %d-%d", low, high)
}
