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
	"preflight/checks/proof"
	"preflight/facts"
)

// redirect is what takes connections to a node, or of a node, to another port or machine.
type redirect struct {
	node *facts.Node
	rule []string // words of the rule as iptables-save prints it, nil for a sidecar that shows no rule
	to   string   // where the connections go
}

// sidecars maps the ports of Istio's proxy to the side of a connection that it takes over.
// Source: istio.io, "Ports used by Istio", the same since 1.1.
var sidecars = map[bool]int{true: 15006, false: 15001} // by isCallee

// redirectOf returns the redirect of a failed connection between two nodes, or nil if there is none.
// The callee's rules redirect what comes in, and the caller's rules what goes out.
func redirectOf(caller, callee *facts.Node, to string, port int, outcome facts.PathOutcome) *redirect {
	answered := outcome == facts.PathRefused || outcome == facts.PathReset || outcome == facts.PathSilent || isWrongAnswer(outcome)
	if !answered && outcome != facts.PathDropped {
		return nil
	}
	for _, isCallee := range []bool{true, false} {
		node := caller
		if isCallee {
			node = callee
		}
		if node == nil || node.Net == nil {
			continue
		}
		for _, text := range node.Net.Rules {
			if at := redirectTarget(text, isCallee, to, port); at != "" {
				return &redirect{node, strings.Fields(text), at}
			}
		}
		listens := func(l facts.Listener) bool { return l.Port == sidecars[isCallee] }
		if answered && slices.ContainsFunc(node.Net.Listening, listens) {
			return &redirect{node: node, to: fmt.Sprintf("port %d", sidecars[isCallee])}
		}
	}
	return nil
}

// redirectTarget returns where a rule sends a connection to an address and port, or "" if the rule
// does not apply to it.
func redirectTarget(rule string, isCallee bool, to string, port int) string {
	words := strings.Fields(rule)
	if len(words) < 3 || words[0] != "nat" || words[2] == "PREROUTING" && !isCallee || words[2] == "OUTPUT" && isCallee {
		return ""
	}
	target := ""
	for i, word := range words[:len(words)-1] {
		value, isNot := words[i+1], words[i-min(i, 1)] == "!"
		applies, known := true, true
		switch word {
		case "-p":
			applies = value == "tcp"
		case "--dport", "--dports":
			applies = slices.ContainsFunc(strings.Split(value, ","), func(ports string) bool { return inPorts(ports, port) })
		case "-d":
			applies = names.Overlap([]string{to}, []string{strings.TrimSuffix(value, "/32")}) || !strings.HasSuffix(value, "/32")
		case "-i", "-o":
			applies = value != "lo" && !facts.Interface{Name: value}.ForContainers()
		case "--to-ports":
			target = "port " + value
		case "--to-destination":
			target = value
		default:
			known = false
		}
		if known && applies == isNot {
			return ""
		}
	}
	return target
}

// inPorts reports whether a port is in a range of iptables, such as 1024:65535.
func inPorts(ports string, port int) bool {
	low, high, isRange := strings.Cut(ports, ":")
	from, errFrom := strconv.Atoi(low)
	to, errTo := strconv.Atoi(high)
	if !isRange {
		to, errTo = from, nil
	}
	return errFrom == nil && errTo == nil && from <= port && port <= to
}

// redirect makes a redirect the cause of a finding, if one explains every failed call of a suspect.
func (m *meshCalls) redirect(s proof.Suspect, f *checks.Finding) {
	var nodes []string
	for i, call := range s.Failed {
		found := redirectOf(m.nodes[call.From], m.nodes[call.To], call.Path.To, call.Path.Port, call.Path.Outcome)
		if found == nil {
			return
		}
		if nodes = append(nodes, found.node.Name); i == len(s.Failed)-1 {
			found.explain(f, m.ports(calleesOf(s.Failed)))
			slices.Sort(nodes)
			f.Nodes = slices.Compact(nodes)
		}
	}
}

// redirect makes a redirect the cause of a finding about a node's call to the store, if there is one.
func (g meeting) redirect(caller *facts.Node, f *checks.Finding) {
	port, _ := strconv.Atoi(g.port)
	if found := redirectOf(caller, g.server, string(g.address(caller)), port, g.part(caller).Outcome); found != nil {
		found.explain(f, "port "+g.port)
	}
}

// explain makes a redirect the cause of a finding about failed connections.
func (r *redirect) explain(f *checks.Finding, ports string) {
	f.Nodes = []string{r.node.Name}
	f.Summary = fmt.Sprintf("a redirect takes calls on %s to %s, away from the ranks", ports, r.to)
	f.Want = "calls between the nodes reach the ranks"
	f.Remedy = nil
	if r.rule != nil {
		f.Got = strings.Trim(f.Got+"; the rule is: "+strings.Join(r.rule[1:], " "), "; ")
		f.Remedy = []fix.Command{fix.On("sudo iptables -t nat -D %s   # until the rule is made again", fix.List[fix.Word](" ", r.rule[2:]))}
	}
	if to := strings.TrimPrefix(r.to, "port "); to == strconv.Itoa(sidecars[true]) || to == strconv.Itoa(sidecars[false]) {
		f.Got = strings.Trim(f.Got+"; this is the port of Istio's sidecar", "; ")
		f.Remedy = append([]fix.Command{fix.Note("annotate the pod or its template with sidecar.istio.io/inject=false, or exclude the ports with traffic.sidecar.istio.io/excludeInboundPorts and excludeOutboundPorts")}, f.Remedy...)
	}
}
