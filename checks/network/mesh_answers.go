// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// isWrongAnswer reports whether the caller found that another machine answered.
func isWrongAnswer(outcome facts.PathOutcome) bool {
	return outcome == facts.PathMisdirected || outcome == facts.PathStranger
}

// judge returns a finding for each suspect. Wrong entries in the callers' neighbour tables come
// first, then answers of other machines, then obstacles.
func (m *meshCalls) judge(found []proof.Suspect) []checks.Finding {
	var astray []proof.Attempt
	var findings []checks.Finding
	var doubled []twoNICs
	for _, s := range found {
		calls, here := m.astray(s), m.twoNICs(s)
		doubled = append(doubled, here...)
		switch {
		case here != nil:
		case calls != nil:
			astray = append(astray, calls...)
		case isWrongAnswer(facts.PathOutcome(s.How)) && (s.Kind == proof.Inbound || s.Kind == proof.BothWays):
			findings = append(findings, m.wrongAnswers(s)...)
		default:
			findings = append(findings, m.finding(s))
		}
	}
	for _, of := range text.GroupBy(doubled, func(d twoNICs) string { return d.node.Name }) {
		all := of.All[0]
		for _, more := range of.All[1:] {
			all.calls = append(all.calls, more.calls...)
		}
		findings = append(findings, m.explainTwoNICs(all))
	}
	slices.SortStableFunc(astray, func(a, b proof.Attempt) int {
		return cmp.Compare(slices.Index(m.names, a.From), slices.Index(m.names, b.From))
	})
	for _, calls := range text.GroupBy(astray, func(c proof.Attempt) string { return c.To + " " + c.Path.MAC }) {
		findings = append(findings, m.duplicate(calls.All))
	}
	return findings
}

// wrongAnswers returns findings for addresses at which another machine answers, if several callers
// report it.
func (m *meshCalls) wrongAnswers(s proof.Suspect) []checks.Finding {
	var findings []checks.Finding
	in := slices.DeleteFunc(slices.Clone(s.Failed), func(c proof.Attempt) bool { return !slices.Contains(s.Nodes, c.To) })
	for _, to := range text.GroupBy(in, callee) {
		calls, call := to.All, to.All[0]
		answered := m.mostlyAnswered(calls)
		f := checks.Finding{
			Nodes:    []string{call.To},
			Summary:  "a machine outside this launch answers for its address",
			Got:      fmt.Sprintf("%s called %s", hostfile.Fold(callersOf(calls)), where(call.Path)),
			Want:     oneMachine,
			WouldSee: m.wouldSee(call.Path),
			Remedy:   append([]fix.Command{whoAnswers(call)}, fix.On("ip -br link   # the MAC addresses of the node itself").As(fix.Look)),
		}
		if answered != "" {
			f.Nodes = append(f.Nodes, answered)
			f.Summary = fmt.Sprintf("%s answers calls to %s: both have the address, or it is translated", answered, call.To)
			f.Remedy[1] = fix.On("ip -br addr").As(fix.Look)
		}
		findings = append(findings, m.weighed(f, calls))
	}
	return findings
}

const oneMachine = "one machine for every address"

func whoAnswers(call proof.Attempt) fix.Command {
	return fix.On("ip neigh show %s   # the MAC address that answers there", fix.Host(call.Path.To)).At(call.From).As(fix.Look)
}

// mostlyAnswered returns the node of this launch whose answer most callers received, or "" for
// none. At least two callers must have received it, because the report of a single caller accuses
// no node.
func (m *meshCalls) mostlyAnswered(calls []proof.Attempt) string {
	count := map[string]int{}
	for _, call := range calls {
		if call.Path.Answered != "" {
			count[call.Path.Answered]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		isNode := slices.ContainsFunc(m.view.All, func(node facts.Node) bool { return node.Name == name })
		if isNode && count[name] > 1 && 2*count[name] > len(calls) {
			return name
		}
	}
	return ""
}

// astray returns the calls of a suspect that went to another machine. It returns nil if these calls
// do not explain most failures of the suspect. A wrong MAC address alone proves nothing, because
// proxies answer for other machines and calls may still pass.
func (m *meshCalls) astray(s proof.Suspect) (astray []proof.Attempt) {
	for _, call := range s.Failed {
		if m.isAstray(call) {
			astray = append(astray, call)
		}
	}
	if s.Kind == proof.Outbound || 2*m.explainedBy(astray, s.Failed) < len(s.Failed) {
		return nil
	}
	return astray
}

// explainedBy returns the number of failures between the same two nodes as a call that went astray.
// A node with a wrong MAC address for its caller also sends its answers to another machine.
func (m *meshCalls) explainedBy(astray, failed []proof.Attempt) (count int) {
	between := map[[2]string]bool{}
	for _, call := range astray {
		between[[2]string{call.From, call.To}], between[[2]string{call.To, call.From}] = true, true
	}
	for _, call := range failed {
		if between[[2]string{call.From, call.To}] {
			count++
		}
	}
	return count
}

// isAstray reports whether a call went to a machine that is not the callee. The machine has none of
// the callee's MAC addresses, and is not a router that answers for several nodes.
func (m *meshCalls) isAstray(call proof.Attempt) bool {
	own := macsOf(m.nodes[call.To])
	if call.Path.MAC == "" || len(own) == 0 || slices.Contains(own, call.Path.MAC) {
		return false
	}
	return !call.Path.MACShared || m.withMAC(call.To, call.Path.MAC) != nil
}

func macsOf(node *facts.Node) (macs []string) {
	if node.Net == nil {
		return nil
	}
	for _, i := range node.Net.Interfaces {
		if i.MAC != "" && !i.Loopback {
			macs = append(macs, i.MAC)
		}
	}
	return macs
}

// duplicate returns the finding for an address for which two machines answer: the node and another
// machine. If only one node reports the other machine, that node may be wrong, so the finding names
// it too.
func (m *meshCalls) duplicate(calls []proof.Attempt) checks.Finding {
	path, node := calls[0].Path, m.nodes[calls[0].To]
	address, callers := fix.Host(path.To), callersOf(calls)
	held, network, known := names.HolderOf(node, path.To)
	own := macsOf(node)[0]
	f := checks.Finding{
		Nodes:    []string{node.Name},
		Got:      fmt.Sprintf("%s called %s and got the MAC address %s, which %s does not have", hostfile.Fold(callers), where(path), path.MAC, node.Name),
		Want:     oneMachine,
		WouldSee: m.wouldSee(path),
		Remedy:   []fix.Command{whoAnswers(calls[0])},
	}
	if known {
		own = cmp.Or(held.MAC, own)
		f.Remedy = append(f.Remedy, fix.On("sudo arping -D -c 3 -I %s %s   # lists every other machine that answers", fix.Name(held.Name), address).At(node.Name).As(fix.Look))
	}
	other := fmt.Sprintf("a machine outside this launch (MAC %s)", path.MAC)
	takeAway := fix.Note("find the other machine by its MAC address in the switch's table, and remove the address there: ip addr del")
	if fellow := m.withMAC(node.Name, path.MAC); fellow != nil {
		other = fmt.Sprintf("%s (MAC %s)", fellow.Name, path.MAC)
		if len(callers) > 1 {
			f.Nodes = append(f.Nodes, fellow.Name)
		}
		switch theirs, _, also := names.HolderOf(fellow, path.To); {
		case also && known:
			takeAway = fix.On("sudo ip addr del %s/%s dev %s   # until the next boot", address, fix.Number(network.Bits()), fix.Name(theirs.Name)).At(fellow.Name)
		case !also:
			takeAway = fix.On("ip neigh show proxy; sysctl -a -r 'proxy_(arp|ndp)'   # it does not have the address, but answers for others").At(fellow.Name).As(fix.Look)
		}
	}
	f.Summary = fmt.Sprintf("two machines answer for %s: %s (MAC %s) and %s", path.To, node.Name, own, other)
	if len(callers) == 1 {
		f.Nodes = append(f.Nodes, callers[0])
		f.Got += "; only this node reports it"
	}
	f.Remedy = append(f.Remedy, takeAway, fix.On("sudo ip neigh flush to %s   # clears what the callers have cached", address).At(callers...).As(fix.Then))
	return f // the ranks of both nodes will fail to connect, because the answers go to the wrong machine
}

// withMAC returns a node of this launch, other than but, that has a MAC address. It returns nil for
// none.
func (m *meshCalls) withMAC(but, mac string) *facts.Node {
	if m.macs == nil {
		m.macs = map[string][]*facts.Node{}
		for _, node := range m.view.Everywhere() {
			for _, own := range macsOf(node) {
				m.macs[own] = append(m.macs[own], node)
			}
		}
	}
	return names.First(m.macs[mac], func(node *facts.Node) bool { return node.Name != but })
}
