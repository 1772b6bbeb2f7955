// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/checks/remedy"
	"preflight/facts"
)

// finding puts a suspect into words.
func (m *meshCalls) finding(s proof.Suspect) checks.Finding {
	f := checks.Finding{Nodes: s.Nodes, Got: m.got(s), WouldSee: m.wouldSee(s.Failed[0].Path), Remedy: m.openFirewall(s)}
	if len(s.Nodes) > 0 {
		f.Remedy = append(remedy.WithHostNetwork(m.nodes[s.Nodes[0]]), f.Remedy...)
	}
	ports := m.ports(calleesOf(s.Failed))
	switch s.Kind {
	case proof.Everywhere:
		f.Summary = "no node reaches another on " + ports
	case proof.Between:
		f.Summary = fmt.Sprintf("%s do not reach each other on %s", proof.FoldSets(s.Sets), ports)
	case proof.Inbound:
		f.Summary = s.Scope("cannot be reached by anyone on "+ports, "cannot be reached by %s on "+ports+", though others reach it")
	case proof.Outbound:
		f.Summary = s.Scope("reaches nobody on "+ports, "cannot reach %s on "+ports+", though it reaches others")
	case proof.BothWays:
		f.Summary = s.Scope("reaches nobody on "+ports+" and is reached by nobody there", "does not reach %s on "+ports+", nor do they reach it")
	case proof.Directions:
		f.Summary = m.oneDirection(s, ports)
	}
	port, answers := m.control(s.Failed)
	cause := meshCauses[facts.PathOutcome(s.How)]
	switch {
	case s.How == string(facts.PathUnresolved):
		cause = silenceOf(s).cause(s)
	case isWrongAnswer(facts.PathOutcome(s.How)) && s.Kind == proof.Outbound:
		cause = "another machine answers wherever it calls, as it alone says: its calls are translated on their way, or its word is wrong"
	case isWrongAnswer(facts.PathOutcome(s.How)):
		cause = "another machine has the address, as the caller says, or the caller's calls are translated on their way: it is one of the two"
	case answers && s.Kind == proof.Inbound:
		f.Summary += fmt.Sprintf(", but port %d answers", port)
		cause = cmp.Or(hostFirewalls[facts.PathOutcome(s.How)], cause)
	case answers:
		f.Summary += fmt.Sprintf(", but port %d answers", port)
	case port != 0:
		f.Summary += fmt.Sprintf(", and port %d does not answer either", port)
	}
	f.Summary += ": " + cause
	if isWrongAnswer(facts.PathOutcome(s.How)) {
		f.Remedy = []fix.Command{whoAnswers(s.Failed[0]), fix.On("sudo iptables -t nat -S; sudo nft list ruleset   # look for DNAT and REDIRECT")}
		f.Want = oneMachine
	} else if s.How == string(facts.PathUnresolved) {
		silenceOf(s).explain(m, &f)
	} else if s.How == string(facts.PathOverflow) {
		f.Want, f.Remedy = "room for everybody on the link", []fix.Command{fix.On("sysctl -a -r 'neigh.default.gc_thresh'; ip neigh | wc -l")}
	} else if networks := m.networks(); len(networks) > 0 && len(networks) <= 4 {
		f.Want = fmt.Sprintf("TCP on %s open to %s, both ways", ports, strings.Join(networks, ", "))
	}
	if m.sampled() == "" && !slices.ContainsFunc(s.Failed, m.isMade) {
		return oneWay(f)
	}
	return f
}

// meshCauses is what must be in the way, by what became of the calls.
var meshCauses = map[facts.PathOutcome]string{
	facts.PathDropped:  "a firewall drops the calls or their answers",
	facts.PathRefused:  "a firewall answers with a reset, or the address is translated; the drill did listen there",
	facts.PathRejected: "a firewall or router rejects the calls, or no machine on the link has the address",
	facts.PathOverflow: "the caller's neighbour table has no room for the peer",
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
func (m *meshCalls) oneDirection(s proof.Suspect, ports string) string {
	lines := proof.Arrows(s.Failed)
	if len(lines) > 1 {
		return "calls between some nodes do not get through on " + ports
	}
	if len(s.Failed) > 1 {
		return fmt.Sprintf("%s does not get through on %s", lines[0], ports)
	}
	call := s.Failed[0]
	passes := func(other proof.Attempt) bool { return !other.Failed && other.From == call.To && other.To == call.From }
	if slices.ContainsFunc(m.calls, passes) {
		return fmt.Sprintf("%s → %s passes, %[2]s → %[1]s %[4]s on %[3]s", call.To, call.From, ports, becomes[facts.PathOutcome(s.How)])
	}
	return fmt.Sprintf("%s does not get through on %s", lines[0], ports)
}

// becomes is what is said of a call that failed.
var becomes = map[facts.PathOutcome]string{
	facts.PathDropped: "is dropped", facts.PathRefused: "is refused", facts.PathRejected: "is rejected",
	facts.PathReset: "is reset", facts.PathSilent: "gets no answer", facts.PathUnresolved: "finds nobody who answers for the address", facts.PathOverflow: "finds no room in the caller's neighbour table",
	facts.PathStranger: "is answered by another machine", facts.PathMisdirected: "is answered by another machine",
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

// control is the ssh port of the callees and whether it answers the same
// callers; 0 when they do not agree or did not try.
func (m *meshCalls) control(calls []proof.Attempt) (port int, answers bool) {
	tried := map[bool]bool{}
	for _, call := range calls {
		if call.Path.Control != nil {
			tried[*call.Path.Control] = true
		}
	}
	if len(tried) != 1 {
		return 0, false
	}
	if node := m.nodes[calls[0].To]; node.SSH != nil {
		port = node.SSH.Port
	}
	return cmp.Or(port, 22), tried[true]
}

// outcomes is how many calls failed, and of what.
func outcomes(s proof.Suspect) string {
	count := map[string]int{}
	for _, call := range s.Failed {
		count[string(call.Path.Outcome)]++
	}
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %s", count[outcome], outcome))
	}
	return "calls: " + strings.Join(parts, ", ")
}

// got is that, and one of them to try by hand.
func (m *meshCalls) got(s proof.Suspect) string {
	text := outcomes(s)
	if s.Kind == proof.Directions && len(s.Failed) > 1 {
		text += ": " + strings.Join(atMost(6, proof.Arrows(s.Failed), "%d more"), ", ")
	}
	first := s.Failed[0]
	text += fmt.Sprintf("; %s called %s", first.From, where(first.Path))
	if first.Path.Error != "" {
		text += ": " + first.Path.Error
	}
	return text + m.sampled()
}

// wouldSee is what a rank that makes the call dies with. NCCL's texts are of
// 2.24 and later (src/misc/socket.cc), gloo's of 2025 (transport/tcp).
func (m *meshCalls) wouldSee(path *facts.Path) string {
	words := map[facts.PathOutcome]string{
		facts.PathDropped: "Connection timed out", facts.PathRefused: "Connection refused", facts.PathRejected: "No route to host",
		facts.PathUnresolved: "No route to host", facts.PathOverflow: "Connection timed out",
	}[path.Outcome]
	if !ranks.UsesNCCL(m.view) {
		switch path.Outcome {
		case facts.PathDropped, facts.PathOverflow:
			return fmt.Sprintf("Gloo connectFullMesh failed with … Connect timeout [%s]:%d", path.To, path.Port)
		case facts.PathReset:
			return fmt.Sprintf("Connection closed by peer [%s]:%d", path.To, path.Port)
		case facts.PathSilent, facts.PathStranger, facts.PathMisdirected:
			return "a hang in the first collective, until its timeout of 30 minutes"
		}
		return fmt.Sprintf("Gloo connectFullMesh failed with … connect [%s]:%d: %s", path.To, path.Port, cmp.Or(words, path.Error))
	}
	switch path.Outcome {
	case facts.PathReset:
		return fmt.Sprintf("socketProgress: Connection closed by remote peer %s<%d>", path.To, path.Port)
	case facts.PathSilent, facts.PathStranger, facts.PathMisdirected:
		return "a hang at the first collective: Watchdog caught collective operation timeout: WorkNCCL(…) ran for 600000 milliseconds before timing out"
	case facts.PathUnroutable:
		return fmt.Sprintf("connect to %s<%d> failed : %s", path.To, path.Port, cmp.Or(path.Error, "Network is unreachable"))
	}
	return fmt.Sprintf("connect to %s<%d> returned %s, exceeded error retry count after 35 attempts", path.To, path.Port, words)
}

// sampled says how much was tried where that is not all.
func (m *meshCalls) sampled() string {
	all := len(m.names) * (len(m.names) - 1)
	if m.tried >= all {
		return ""
	}
	return fmt.Sprintf("; a sample: %s of %s calls were tried", humanize.Comma(int64(m.tried)), humanize.Comma(int64(all)))
}

// atMost is the first of the parts, with a word on how many more there are.
func atMost(most int, parts []string, more string) []string {
	if len(parts) > most {
		return append(parts[:most], fmt.Sprintf(more, len(parts)-most))
	}
	return parts
}
