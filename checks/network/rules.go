// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/launch/nccl"
)

// culprit is a rule that ends connections between two nodes, or that takes them to another port or
// machine.
type culprit struct {
	node *facts.Node
	rule []string // words of the rule as iptables-save prints it, nil for a sidecar that shows no rule
	rule4
	peer string // the address at the other end of the connection
}

// rule4 is what a rule of iptables does with connections to an address and port.
type rule4 struct {
	to    string // where the connections go, "" if the rule ends them
	does  string // "drops", "rejects" or accepts; "" if the rule redirects packets
	how   []facts.PathOutcome
	limit bool // whether the rule applies only to some of the connections
}

// accepts marks a rule after which the kernel skips the rules below it.
const accepts = "accepts"

// rated lists the modules of iptables that match packets above or below a rate or an amount.
var rated = []string{"hashlimit", "limit", "recent", "quota", "connbytes"}

// sidecars maps the ports of Istio's proxy to the side of a connection that it takes over.
// Source: istio.io, "Ports used by Istio", the same since 1.1.
var sidecars = map[bool]int{true: 15006, false: 15001} // by isCallee

// chains maps the chains of the kernel to the end of a connection whose packets they see. The value
// is true for the callee.
var chains = map[string]bool{"PREROUTING": true, "INPUT": true, "OUTPUT": false, "POSTROUTING": false}

// culpritOf returns the rule that explains a failed connection between two nodes. It returns nil if
// no rule does, or if rules of both nodes may be the reason.
func culpritOf(caller, callee *facts.Node, to string, port int, outcome facts.PathOutcome) *culprit {
	answered := outcome == facts.PathRefused || outcome == facts.PathReset || outcome == facts.PathSilent || isWrongAnswer(outcome)
	from, found := "", []*culprit{}
	if caller != nil {
		from = nccl.PeerAddress(caller).Address
	}
	for _, isCallee := range []bool{true, false} {
		node, peer := caller, to
		if isCallee {
			node, peer = callee, from
		}
		if node == nil || node.Net == nil {
			continue
		}
		for _, text := range node.Net.Rules {
			does, applies := parseRule(text, isCallee, from, to, port)
			if applies && (does.to != "" && (answered || outcome == facts.PathDropped) || slices.Contains(does.how, outcome)) {
				found = append(found, &culprit{node, strings.Fields(text), does, peer})
				break
			}
		}
		listens := func(l facts.Listener) bool { return l.Port == sidecars[isCallee] }
		if answered && len(found) == 0 && slices.ContainsFunc(node.Net.Listening, listens) {
			found = append(found, &culprit{node: node, rule4: rule4{to: fmt.Sprintf("port %d", sidecars[isCallee])}})
		}
	}
	if len(found) == 0 || len(found) > 1 && (found[0].to == "" || found[1].to == "") && found[0].node != found[1].node {
		return nil
	}
	return found[0]
}

// parseRule returns what a rule does with new connections from one address to another. applies is
// false if the rule leaves them alone, or has a condition that is not known here.
func parseRule(rule string, isCallee bool, from, to string, port int) (does rule4, applies bool) {
	words := strings.Fields(rule)
	if address, err := netip.ParseAddr(to); len(words) < 3 || err == nil && address.Is6() {
		return does, false
	}
	ofCallee, ofKernel := chains[words[2]]
	if ofKernel && ofCallee != isCallee || !ofKernel && words[0] != "nat" {
		return does, false
	}
	odd := false
	for i, word := range words[:len(words)-1] {
		value, isNot := words[i+1], words[i-min(i, 1)] == "!"
		applies, known := true, true
		switch word {
		case "-p":
			applies = value == "tcp"
		case "--dport", "--dports":
			applies = slices.ContainsFunc(strings.Split(value, ","), func(ports string) bool { return inPorts(ports, port) })
		case "-s":
			applies = inNetwork(value, from)
		case "-d":
			applies = inNetwork(value, to)
		case "-i", "-o":
			applies = value != "lo" && !facts.Interface{Name: value}.ForContainers()
		case "--ctstate", "--state":
			applies = slices.Contains(strings.Split(value, ","), "NEW")
		case "--tcp-flags":
			applies = value == "FIN,SYN,RST,ACK"
		case "-m":
			known = false
			does.limit = does.limit || slices.Contains(append([]string{"connlimit", "statistic"}, rated...), value)
			odd = odd || !does.limit && !slices.Contains([]string{"tcp", "multiport", "conntrack", "state", "comment"}, value)
		case "--to-ports":
			does.to, known = "port "+value, false
		case "--to-destination":
			does.to, known = value, false
		case "-j":
			known = false
			does.does, does.how = fateOf(value, words[i:])
		default:
			known = false
		}
		if known && applies == isNot {
			return does, false
		}
	}
	return does, does.to != "" || does.does != "" && ofKernel && !odd
}

// fateOf returns what a target of iptables does with a packet, and how the caller sees that.
func fateOf(target string, options []string) (does string, how []facts.PathOutcome) {
	switch {
	case target == "ACCEPT":
		return accepts, nil
	case target == "DROP":
		return "drops", []facts.PathOutcome{facts.PathDropped}
	case target == "REJECT" && (slices.Contains(options, "tcp-reset") || slices.Contains(options, "icmp-port-unreachable")):
		return "rejects", []facts.PathOutcome{facts.PathRefused, facts.PathReset}
	case target == "REJECT":
		return "rejects", []facts.PathOutcome{facts.PathRejected}
	}
	return "", nil
}

// inNetwork reports whether an address is in a network. It is true if one of them is not known.
func inNetwork(network, address string) bool {
	prefix, err := netip.ParsePrefix(network)
	at, notKnown := netip.ParseAddr(address)
	return err != nil || notKnown != nil || prefix.Contains(at.Unmap())
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

// culprit returns the rule that explains a failed call, or nil if there is none.
func (m *meshCalls) culprit(call proof.Attempt) *culprit {
	return culpritOf(m.nodes[call.From], m.nodes[call.To], call.Path.To, call.Path.Port, call.Path.Outcome)
}

// blame makes a rule the cause of a finding, if one explains every failed call of a suspect.
func (m *meshCalls) blame(s proof.Suspect, f *checks.Finding) {
	var nodes, ends []string
	for i, call := range s.Failed {
		found := m.culprit(call)
		if found == nil {
			return
		}
		nodes = append(nodes, found.node.Name)
		if found.node.Name == m.nodes[call.To].Name {
			ends = append(ends, " from "+m.nodes[call.From].Name)
		} else {
			ends = append(ends, " to "+m.nodes[call.To].Name)
		}
		if i == len(s.Failed)-1 {
			ports := m.ports(calleesOf(s.Failed))
			slices.Sort(ends)
			if one := slices.Compact(ends); len(one) == 1 && len(m.nodes) > 2 {
				ports += one[0]
			}
			found.explain(f, ports, m.networks())
			slices.Sort(nodes)
			f.Nodes = slices.Compact(nodes)
		}
	}
}

// culprit returns the rule that explains a node's failed call to the store, or nil if there is none.
func (g meeting) culprit(caller *facts.Node) *culprit {
	port, _ := strconv.Atoi(g.port)
	return culpritOf(caller, g.server, string(g.address(caller)), port, cmp.Or(g.part(caller).Outcome, facts.PathSilent))
}

// blame makes a rule the cause of a finding about a node's call to the store, if there is one.
func (g meeting) blame(caller *facts.Node, f *checks.Finding) {
	if found := g.culprit(caller); found != nil {
		found.explain(f, "port "+g.port, nil)
	}
}

// explain makes a rule the cause of a finding about failed connections. A rule that ends connections
// stays, because it may be needed for others. The fix accepts those of the networks, or of the peer
// if there are none.
func (r *culprit) explain(f *checks.Finding, ports string, networks []string) {
	f.Nodes = []string{r.node.Name}
	if r.rule != nil {
		f.Got = strings.Trim(f.Got+"; the rule is: "+strings.Join(r.rule[1:], " "), "; ")
	}
	if r.to == "" {
		f.Summary = fmt.Sprintf("a rule of iptables in %s %s connections on %s", r.rule[2], r.does, ports)
		if r.limit {
			f.Summary = fmt.Sprintf("a rule of iptables in %s %s connections on %s above a limit", r.rule[2], r.does, ports)
		}
		if r.node.Host == nil || len(r.node.Host.Firewalls) == 0 || r.rule[2] != "INPUT" {
			f.Remedy = []fix.Command{r.accept(networks)}
		} // otherwise the program that made the rule must change it
		return
	}
	f.Summary = fmt.Sprintf("a redirect takes calls on %s to %s, away from the ranks", ports, r.to)
	f.Want = "calls between the nodes reach the ranks"
	f.Remedy = nil
	if r.rule != nil {
		f.Remedy = []fix.Command{r.delete()}
	}
	if to := strings.TrimPrefix(r.to, "port "); to == strconv.Itoa(sidecars[true]) || to == strconv.Itoa(sidecars[false]) {
		f.Got = strings.Trim(f.Got+"; this is the port of Istio's sidecar", "; ")
		f.Remedy = append([]fix.Command{fix.Note("annotate the pod or its template with sidecar.istio.io/inject=false, or exclude the ports with traffic.sidecar.istio.io/excludeInboundPorts and excludeOutboundPorts")}, f.Remedy...)
	}
}

// accept returns the command that accepts connections before a rule ends them.
func (r *culprit) accept(networks []string) fix.Command {
	side := fix.Code("-d")
	if chains[r.rule[2]] {
		side = fix.Code("-s")
	}
	if len(networks) == 0 && r.peer != "" {
		networks = []string{r.peer}
	}
	if len(networks) == 0 {
		return fix.On("sudo iptables -t %s -S %s", fix.Name(r.rule[0]), fix.Name(r.rule[2])).As(fix.Look)
	}
	return fix.On("sudo iptables -t %s -I %s -p tcp %s %s -j ACCEPT   # until the firewall reloads",
		fix.Name(r.rule[0]), fix.Name(r.rule[2]), side, fix.Name(strings.Join(networks, ",")))
}

// tooFewConnections returns findings for nodes with a rule that allows each client fewer connections
// than the ranks of a peer make. It removes the calls that ended because of the rule.
func (m *meshCalls) tooFewConnections() (findings []checks.Finding) {
	for _, node := range m.view.Nodes {
		if node.Net == nil || node.Mesh == nil {
			continue
		}
		for at, rule := range node.Net.Rules {
			words := strings.Fields(rule)
			limit := optionOf(words, "--connlimit-above")
			allowed, err := strconv.Atoi(limit)
			if err != nil || slices.Contains(words, "--connlimit-upto") || optionOf(words, "--connlimit-mask") == "0" {
				continue
			}
			needed, by := 0, ""
			for _, peer := range m.view.Nodes {
				if peer != node && chains[words[2]] && m.decides(node, peer, at) {
					if count := m.connections(peer, node); count > needed {
						needed, by = count, peer.Name
					}
				}
			}
			if needed <= allowed {
				continue
			}
			r := culprit{node: node, rule: words}
			findings = append(findings, checks.Finding{
				Nodes:    []string{node.Name},
				Summary:  fmt.Sprintf("a rule of iptables in %s allows each node only %s", words[2], text.Plural(allowed, "connection")),
				Got:      "the rule is: " + strings.Join(words[1:], " "),
				Want:     fmt.Sprintf("at least %d connections: the ranks of %s make as many", needed, by),
				WouldSee: "DistStoreError: wait timeout, or Gloo connectFullMesh failed with … " + node.Mesh.Address,
				Remedy:   []fix.Command{r.accept(m.networks())},
			})
			isLimited := func(call proof.Attempt) bool {
				found := m.culprit(call)
				return found != nil && found.node == node && found.limit
			}
			m.partly = slices.DeleteFunc(m.partly, isLimited)
			m.calls = slices.DeleteFunc(m.calls, func(call proof.Attempt) bool { return call.Failed && isLimited(call) })
		}
	}
	return findings
}

// rateLimits returns warnings about rules that end connections of the ranks, or packets of them,
// above a rate or an amount. The calls of the test may stay below it. A rule that explains a failed
// call is in the finding about the call.
func (m *meshCalls) rateLimits() (findings []checks.Finding) {
	for _, node := range m.view.Nodes {
		if node.Net == nil || node.Mesh == nil {
			continue
		}
		for at, rule := range node.Net.Rules {
			r := culprit{node: node, rule: strings.Fields(rule)}
			isRated := slices.ContainsFunc(rated, func(module string) bool { return strings.Contains(rule, " -m "+module+" ") })
			concerns := func(peer *facts.Node) bool { return peer != node && peer.Mesh != nil && m.decides(node, peer, at) }
			hasEnded := func(call proof.Attempt) bool {
				if !call.Failed {
					return false
				}
				found := m.culprit(call)
				return found != nil && found.node == node && slices.Equal(found.rule, r.rule)
			}
			if !isRated || !slices.ContainsFunc(m.view.Nodes, concerns) || slices.ContainsFunc(slices.Concat(m.calls, m.partly), hasEnded) {
				continue
			}
			remedy := r.delete()
			if optionOf(r.rule, "-j") == "ACCEPT" { // without the rule, the rules below it end all packets
				remedy = r.accept(m.networks())
			}
			findings = append(findings, checks.Finding{
				Verdict: checks.Warn, Nodes: []string{node.Name},
				Summary:  fmt.Sprintf("a rule of iptables in %s limits the nodes' connections or traffic", r.rule[2]),
				Got:      "the rule is: " + strings.Join(r.rule[1:], " "),
				Want:     "no limit between the nodes, because ranks open many connections together and send much data",
				WouldSee: "nothing below the limit; above it, a hang, or connections that time out",
				Remedy:   []fix.Command{remedy},
			})
		}
	}
	return findings
}

// decides reports whether the rule at an index ends, or may end, connections between a node and a
// peer. A rule that accepts some connections counts only if a rule below it, or the chain's policy,
// drops the others. No rule counts if a rule above it accepts all connections.
func (m *meshCalls) decides(node, peer *facts.Node, at int) bool {
	list := node.Net.Rules
	words := strings.Fields(list[at])
	if len(words) < 3 {
		return false
	}
	from, to := nccl.PeerAddress(peer).Address, node.Mesh.Address
	if !chains[words[2]] {
		from, to = nccl.PeerAddress(node).Address, from
	}
	chain := strings.Join([]string{words[0], "-A", words[2]}, " ") + " "
	fate := func(rule string) rule4 {
		does, applies := parseRule(rule, chains[words[2]], from, to, node.Net.EphemeralHigh)
		if !applies || !strings.HasPrefix(rule, chain) {
			return rule4{}
		}
		return does
	}
	ends := func(rule string) bool {
		does := fate(rule)
		return does.does != "" && does.does != accepts && !does.limit
	}
	acceptsAll := func(rule string) bool { does := fate(rule); return does.does == accepts && !does.limit }
	does := fate(list[at]).does
	if does == "" || slices.ContainsFunc(list[:at], acceptsAll) {
		return false
	}
	return does != accepts || slices.ContainsFunc(list[at:], ends) || slices.Contains(list, fmt.Sprintf("%s -P %s DROP", words[0], words[2]))
}

// delete returns the command that deletes a rule. A rule with quoted words is only shown.
func (r *culprit) delete() fix.Command {
	if slices.ContainsFunc(r.rule, func(word string) bool { return strings.Contains(word, `"`) }) {
		return fix.On("sudo iptables -t %s -L %s --line-numbers   # then delete the rule by its number", fix.Name(r.rule[0]), fix.Name(r.rule[2])).As(fix.Look)
	}
	return fix.On("sudo iptables -t %s -D %s   # until the rule is made again", fix.Name(r.rule[0]), fix.List[fix.Word](" ", r.rule[2:]))
}

// blameLength makes rules that drop long packets the cause of a finding, if they explain every
// direction in which full packets are lost.
func blameLength(nodes map[string]*facts.Node, lost []proof.Attempt, f *checks.Finding) {
	var found []*culprit
	for _, call := range lost {
		r := cmp.Or(byLength(nodes[call.From], nodes[call.To], call.Path, true), byLength(nodes[call.From], nodes[call.To], call.Path, false))
		if r == nil {
			return
		}
		if !slices.ContainsFunc(found, func(other *culprit) bool { return other.node == r.node && slices.Equal(other.rule, r.rule) }) {
			found = append(found, r)
		}
	}
	f.Summary = fmt.Sprintf("a rule of iptables in %s %s long packets between the nodes, short ones pass", found[0].rule[2], found[0].does)
	f.Got += "; the rule is: " + strings.Join(found[0].rule[1:], " ")
	f.Want, f.Nodes, f.Remedy = "packets of every length pass between the nodes", nil, nil
	for _, r := range found {
		f.Nodes = append(f.Nodes, r.node.Name)
		f.Remedy = append(f.Remedy, r.delete().At(r.node.Name))
	}
	slices.Sort(f.Nodes)
	f.Nodes = slices.Compact(f.Nodes)
}

// byLength returns the rule of the receiver, or of the sender, that drops long packets and lets
// through the first packet of a connection, which has 60 bytes. It returns nil if there is none.
func byLength(sender, receiver *facts.Node, path *facts.Path, isReceiver bool) *culprit {
	node := sender
	if isReceiver {
		node = receiver
	}
	if node.Net == nil {
		return nil
	}
	for _, rule := range node.Net.Rules {
		words := strings.Fields(rule)
		at := slices.Index(words, "--length")
		if at < 5 || at+1 >= len(words) { // at least: filter -A INPUT -m length --length
			continue
		}
		start, isNot := at-2, words[at-1] == "!"
		if isNot {
			start--
		}
		if inPorts(words[at+1], 60) != isNot {
			continue
		}
		others := slices.Concat(words[:start], words[at+2:])
		does, applies := parseRule(strings.Join(others, " "), isReceiver, sender.Mesh.Address, receiver.Mesh.Address, path.Port)
		if applies && does.does != "" && does.does != accepts {
			return &culprit{node: node, rule: words, rule4: does}
		}
	}
	return nil
}

// connections returns the smallest number of connections that the ranks of a node make to ephemeral
// ports and to the store of another node, at the same time.
func (m *meshCalls) connections(from, to *facts.Node) (count int) {
	if first, _ := names.NodeZero(m.view); first == to {
		if count = from.Slots; m.view.Launch.Rendezvous == launch.RendezvousC10d {
			count++ // the agent of torchrun is a client of its own store
		}
	}
	if !ranks.UsesNCCL(m.view) && ranks.GlooMesh(m.view).Calls(from, to) {
		count += from.Slots * to.Slots
	}
	return count
}

// optionOf returns the value after an option, or "" if the option is missing.
func optionOf(words []string, option string) string {
	if at := slices.Index(words, option); at >= 0 && at+1 < len(words) {
		return words[at+1]
	}
	return ""
}

const (
	// quiet is how long the ranks' connections are commonly unused, while a model is loaded or
	// compiled. longQuiet is the time for a long checkpoint or evaluation.
	quiet     = 120
	longQuiet = 3600
)

// forgetful returns findings for nodes whose firewall forgets connections that the ranks do not use
// for a while, and then drops their packets. It also warns about a table of connections that is
// nearly full.
//
// Source: nf_conntrack_proto_tcp.c, tcp_new and nf_conntrack_tcp_packet, Linux 6.1: without an entry
// and with tcp_loose=0, a packet inside a connection is INVALID. With tcp_loose=1 it is NEW.
func forgetful(view checks.View) (findings []checks.Finding) {
	for _, node := range view.Nodes {
		if node.Net == nil {
			continue
		}
		setting := func(name string) (int, bool) {
			value, err := strconv.Atoi(node.Net.TCP["net.netfilter.nf_conntrack_"+name])
			return value, err == nil
		}
		if most, known := setting("max"); known && most > 0 && node.Net.Tracked*10 >= most*9 {
			findings = append(findings, checks.Finding{
				Verdict: checks.Warn, Nodes: []string{node.Name},
				Summary:  "the kernel's table of tracked connections is nearly full",
				Got:      fmt.Sprintf("%d of %d entries", node.Net.Tracked, most),
				Want:     "less than 90 % of net.netfilter.nf_conntrack_max",
				WouldSee: "Connection timed out, and nf_conntrack: table full, dropping packet in the kernel log",
				Remedy:   []fix.Command{fix.On("sudo sysctl -w net.netfilter.nf_conntrack_max=%s   # until the next boot", fix.Number(most*4))},
			})
		}
		seconds, known := setting("tcp_timeout_established")
		loose, looseKnown := setting("tcp_loose")
		at := slices.IndexFunc(node.Net.Rules, func(rule string) bool { return endsForgotten(rule, loose != 0) })
		if !known || !looseKnown || seconds >= longQuiet || at < 0 {
			continue
		}
		f := checks.Finding{
			Nodes:   []string{node.Name},
			Summary: fmt.Sprintf("the firewall forgets connections that are unused for %d s, then drops them", seconds),
			Got: fmt.Sprintf("nf_conntrack_tcp_timeout_established is %d, nf_conntrack_tcp_loose is %d; the rule is: %s",
				seconds, loose, node.Net.Rules[at][strings.Index(node.Net.Rules[at], "-A"):]),
			Want:     fmt.Sprintf("at least %d s: ranks are silent while they load, compile or save", longQuiet),
			WouldSee: "Timed out waiting … for recv operation to complete, or Watchdog caught collective operation timeout",
			Remedy:   []fix.Command{fix.On("sudo sysctl -w net.netfilter.nf_conntrack_tcp_timeout_established=432000   # until the next boot")},
		}
		if seconds >= quiet {
			f.Verdict, f.WouldSee = checks.Warn, "nothing, unless the ranks are silent for longer; then: "+f.WouldSee
		}
		findings = append(findings, f)
	}
	return findings
}

// endsForgotten reports whether a rule ends connections between nodes that the kernel no longer
// tracks.
func endsForgotten(rule string, loose bool) bool {
	words := strings.Fields(rule)
	if len(words) < 3 || optionOf(words, "-i") == "lo" || optionOf(words, "-o") == "lo" {
		return false
	}
	if does, _ := fateOf(optionOf(words, "-j"), nil); does == "" || does == accepts || !slices.Contains([]string{"", "tcp"}, optionOf(words, "-p")) {
		return false
	}
	state := strings.Split(cmp.Or(optionOf(words, "--ctstate"), optionOf(words, "--state")), ",")
	if loose {
		flags := slices.Index(words, "--tcp-flags")
		return slices.Contains(state, "NEW") && flags > 0 && words[flags-1] == "!"
	}
	_, ofKernel := chains[words[2]]
	return ofKernel && slices.Contains(state, "INVALID")
}
