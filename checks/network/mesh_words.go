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
	"preflight/internal/text"
)

// finding returns the finding for a suspect.
func (m *meshCalls) finding(s proof.Suspect) checks.Finding {
	f := checks.Finding{Nodes: s.Nodes, Got: m.got(s), WouldSee: m.wouldSee(s.Failed[0].Path), Remedy: m.openFirewall(s)}
	if len(s.Nodes) > 0 {
		apart := remedy.WithHostNetwork(m.nodes[s.Nodes[0]])
		if len(apart) > 0 && ranks.ContainerOf(m.nodes[s.Nodes[0]]) == "kubernetes" {
			f.Remedy = []fix.Command{
				fix.Here("kubectl get networkpolicy{pods}   # with Cilium or Calico, also their own kinds of policies").As(fix.Look),
				fix.Note("if a NetworkPolicy selects the pods, let it allow TCP between them on all ports, in and out"),
			}
		}
		f.Remedy = append(apart, f.Remedy...)
	}
	ports := m.ports(calleesOf(s.Failed))
	f.Summary = cmp.Or(m.oneDirection(s, ports), unreached(s, " on "+ports))
	port, answers := m.control(s.Failed)
	said := outcomeWords[facts.PathOutcome(s.How)]
	cause := said.cause
	switch {
	case s.How == string(facts.PathUnresolved):
		cause = silenceOf(s).cause(s)
	case isWrongAnswer(facts.PathOutcome(s.How)) && s.Kind == proof.Outbound:
		cause = "another machine answers its connections, but only this node reports that"
	case isWrongAnswer(facts.PathOutcome(s.How)):
		cause = "another machine has the address, or the caller's connections are translated"
	case answers && s.Kind == proof.Inbound:
		f.Summary += fmt.Sprintf(" (port %d answers)", port)
		cause = cmp.Or(said.hostOnly, cause)
	case answers:
		f.Summary += fmt.Sprintf(" (port %d answers)", port)
	case port != 0:
		f.Summary += fmt.Sprintf(" (nor on port %d)", port)
	}
	f.Summary += ": " + cause
	if isWrongAnswer(facts.PathOutcome(s.How)) {
		f.Remedy = []fix.Command{whoAnswers(s.Failed[0]), fix.On("sudo iptables -t nat -S; sudo nft list ruleset   # look for DNAT and REDIRECT").As(fix.Look)}
		f.Want = oneMachine
	} else if s.How == string(facts.PathUnresolved) {
		silenceOf(s).explain(m, &f)
	} else if s.How == string(facts.PathOverflow) {
		f.Want, f.Remedy = "a neighbour table with room for every node on the link", []fix.Command{fix.On("sysctl -a -r 'neigh.default.gc_thresh'; ip neigh | wc -l").As(fix.Look)}
	} else if networks := m.networks(); len(networks) > 0 && len(networks) <= 4 {
		f.Want = fmt.Sprintf("TCP %s open to %s, in both directions", ports, strings.Join(networks, ", "))
	}
	m.blame(s, &f)
	if m.sampled() != "" {
		return f
	}
	return m.weighed(f, s.Failed)
}

// outcomeWords maps the outcome of a call to the texts about it.
var outcomeWords = map[facts.PathOutcome]struct {
	call     string // what happens to a single call
	error    string // the error of connect(2)
	cause    string // the likely cause
	hostOnly string // the likely cause if another port of the callee answers; "" if it is the same
}{
	facts.PathDropped: {"is dropped", "Connection timed out", "a firewall drops packets", "its firewall drops connections"},
	facts.PathRefused: {"is refused", "Connection refused", "a firewall resets connections, or the address is translated",
		"its firewall resets connections, or the address is translated"},
	facts.PathRejected: {"is rejected", "No route to host", "a firewall or router rejects connections, or no machine has the address",
		"its firewall rejects connections"},
	facts.PathOverflow:    {"finds no room in the caller's neighbour table", "Connection timed out", "the caller's neighbour table is full", ""},
	facts.PathReset:       {"is reset", "", "a firewall or proxy that inspects connections resets them", ""},
	facts.PathSilent:      {"gets no answer", "", "a proxy accepts connections without answering, or the node hangs", ""},
	facts.PathUnresolved:  {call: "finds no machine that answers for the address", error: "No route to host"},
	facts.PathStranger:    {call: "is answered by another machine"},
	facts.PathMisdirected: {call: "is answered by another machine"},
}

// unreached says which nodes do not reach which nodes. on is the end of the sentence, such as " on
// ports 32768-60999".
func unreached(s proof.Suspect, on string) string {
	return s.Sentence(proof.Words{
		proof.Everywhere: {"no node reaches another" + on},
		proof.Between:    {"", "%s do not reach each other" + on},
		proof.Inbound:    {"no other node reaches it" + on, "%s cannot reach it" + on + ", but others can"},
		proof.Outbound:   {"reaches no other node" + on, "cannot reach %s" + on + ", but reaches others"},
		proof.BothWays:   {"neither reaches other nodes nor is reached" + on, "cannot reach %s" + on + ", and they cannot reach it"},
		proof.Directions: {"some nodes do not reach others" + on, "%s does not get through" + on},
	})
}

// oneDirection describes a single failed call if the call in the opposite direction passed. It
// returns "" in all other cases.
func (m *meshCalls) oneDirection(s proof.Suspect, ports string) string {
	call := s.Failed[0]
	passes := func(other proof.Attempt) bool { return !other.Failed && other.From == call.To && other.To == call.From }
	if s.Kind != proof.Directions || len(s.Failed) > 1 || !slices.ContainsFunc(m.calls, passes) {
		return ""
	}
	return fmt.Sprintf("%s → %s passes, %[2]s → %[1]s %[4]s on %[3]s", call.To, call.From, ports, outcomeWords[facts.PathOutcome(s.How)].call)
}

// ports returns the range of the ports on which the nodes listened.
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

// control returns the ssh port of the callees, and whether that port answered the same callers.
// port is 0 if the results differ or the port was not tested.
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

// outcomes returns the number of failed calls for each outcome, as text.
func outcomes(s proof.Suspect) string {
	count := map[string]int{}
	for _, call := range s.Failed {
		count[string(call.Path.Outcome)]++
	}
	parts := text.Map(slices.Sorted(maps.Keys(count)), func(outcome string) string { return fmt.Sprintf("%d %s", count[outcome], outcome) })
	return "connections: " + strings.Join(parts, ", ")
}

// got returns the text of outcomes with one call that a person can repeat.
func (m *meshCalls) got(s proof.Suspect) string {
	text := outcomes(s)
	if s.Kind == proof.Directions && len(s.Failed) > 1 {
		text += ": " + strings.Join(atMost(6, proof.Arrows(s.Failed), "%d more"), ", ")
	}
	first := s.Failed[0]
	text += fmt.Sprintf("; %s to %s", first.From, where(first.Path))
	if first.Path.Error != "" {
		text += ": " + first.Path.Error
	}
	return text + m.sampled()
}

// wouldSee returns the error of a rank that makes the same connection. NCCL's texts are those of
// 2.24 and later (src/misc/socket.cc), and gloo's those of 2025 (transport/tcp).
func (m *meshCalls) wouldSee(path *facts.Path) string {
	words := outcomeWords[path.Outcome].error
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

// sampled says how many calls the test made if it did not make all of them, otherwise "".
func (m *meshCalls) sampled() string {
	all := len(m.names) * (len(m.names) - 1)
	if m.tried >= all {
		return ""
	}
	return fmt.Sprintf("; a sample of %s of %s connections", humanize.Comma(int64(m.tried)), humanize.Comma(int64(all)))
}

// atMost returns the first parts, up to the limit most. If there are more, the last element gives
// the number of the others.
func atMost(most int, parts []string, more string) []string {
	if len(parts) > most {
		return append(parts[:most], fmt.Sprintf(more, len(parts)-most))
	}
	return parts
}
