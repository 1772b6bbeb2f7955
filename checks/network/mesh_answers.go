package network

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/facts"
	"preflight/hostfile"
)

func isWrongAnswer(outcome facts.PathOutcome) bool {
	return outcome == facts.PathMisdirected || outcome == facts.PathStranger
}

// judge puts a suspect into words: what its callers' neighbour tables show of an address
// first, then who answers there, then what is in the way.
func (m *meshCalls) judge(s proof.Suspect) []checks.Finding {
	if findings := m.duplicates(s); findings != nil {
		return findings
	}
	if isWrongAnswer(facts.PathOutcome(s.How)) && (s.Kind == proof.Inbound || s.Kind == proof.BothWays) {
		return m.wrongAnswers(s)
	}
	return []checks.Finding{m.finding(s)}
}

// wrongAnswers is about addresses at which, as several say, somebody else answers.
func (m *meshCalls) wrongAnswers(s proof.Suspect) []checks.Finding {
	var findings []checks.Finding
	in := slices.DeleteFunc(slices.Clone(s.Failed), func(c proof.Attempt) bool { return !slices.Contains(s.Nodes, c.To) })
	for _, calls := range proof.Gather(in, func(c proof.Attempt) string { return c.To }) {
		answered := mostlyAnswered(calls)
		call := calls[0]
		f := checks.Finding{
			Nodes:    []string{call.To},
			Summary:  "its address is answered by a machine that is no node of this launch",
			Got:      fmt.Sprintf("%s called %s", hostfile.Fold(callersOf(calls)), where(call.Path)),
			Want:     oneMachine,
			WouldSee: m.wouldSee(call.Path),
			Remedy:   append([]fix.Command{whoAnswers(call)}, fix.On("ip -br link   # and its own")),
		}
		if answered != "" {
			f.Nodes = append(f.Nodes, answered)
			f.Summary = fmt.Sprintf("calls to %s are answered by %s: two machines hold the address, or it is translated", call.To, answered)
			f.Remedy[1] = fix.On("ip -br addr")
		}
		if !slices.ContainsFunc(calls, m.isMade) {
			f = oneWay(f)
		}
		findings = append(findings, f)
	}
	return findings
}

const oneMachine = "one machine for every address"

func whoAnswers(call proof.Attempt) fix.Command {
	return fix.On("ip neigh show %s   # the MAC address of who answers there", fix.Host(call.Path.To)).At(call.From)
}

// mostlyAnswered is the node that at least two callers had an answer from, and most of them,
// "" for none: what one alone says of another accuses nobody.
func mostlyAnswered(calls []proof.Attempt) string {
	count := map[string]int{}
	for _, call := range calls {
		if call.Path.Answered != "" {
			count[call.Path.Answered]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if count[name] > 1 && 2*count[name] > len(calls) {
			return name
		}
	}
	return ""
}

// another is a machine that callers of a node have in its place: their neighbour tables have
// of its address a MAC that none of its interfaces has.
type another struct {
	of, mac string
	calls   []proof.Attempt
}

// duplicates is about addresses that a second machine holds, where that is what most of a
// suspect's failures come from. A MAC alone shows nothing: proxies answer for others, and
// calls pass by them.
func (m *meshCalls) duplicates(s proof.Suspect) []checks.Finding {
	var astray []proof.Attempt
	for _, call := range s.Failed {
		if m.isAstray(call) {
			astray = append(astray, call)
		}
	}
	if len(astray) == 0 || s.Kind == proof.Outbound || 2*m.explainedBy(astray, s.Failed) < len(s.Failed) {
		return nil
	}
	var findings []checks.Finding
	for _, calls := range proof.Gather(astray, func(c proof.Attempt) string { return c.To + " " + c.Path.MAC }) {
		findings = append(findings, m.duplicate(another{calls[0].To, calls[0].Path.MAC, calls}))
	}
	return findings
}

// explainedBy is how many of the failures are between the same two as one that went astray:
// who has a wrong MAC of a caller answers somebody else, too.
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

// isAstray is whether a call went to a machine that has none of the callee's MACs.
func (m *meshCalls) isAstray(call proof.Attempt) bool {
	own := macsOf(m.nodes[call.To])
	return call.Path.MAC != "" && len(own) > 0 && !slices.Contains(own, call.Path.MAC)
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

// duplicate names both holders of an address: the node, and the machine that others have in
// its place. Where one node alone says so, it may be that one: they are named both.
func (m *meshCalls) duplicate(a another) checks.Finding {
	node, call := m.nodes[a.of], a.calls[0]
	address, callers := fix.Host(call.Path.To), callersOf(a.calls)
	held, network, known := names.HolderOf(node, call.Path.To)
	own := macsOf(node)[0]
	if known {
		own = cmp.Or(held.MAC, own)
	}
	f := checks.Finding{
		Nodes:    []string{a.of},
		Got:      fmt.Sprintf("%s called %s and had %s of it, which is no MAC of %s", hostfile.Fold(callers), where(call.Path), a.mac, a.of),
		Want:     oneMachine,
		WouldSee: m.wouldSee(call.Path),
		Remedy:   []fix.Command{whoAnswers(call)},
	}
	other := fmt.Sprintf("a machine that is no node of this launch (MAC %s)", a.mac)
	if fellow := m.withMAC(a); fellow != nil {
		other = fmt.Sprintf("%s (MAC %s)", fellow.Name, a.mac)
		f.Nodes = append(f.Nodes, fellow.Name)
	}
	f.Summary = fmt.Sprintf("two machines hold %s: %s (MAC %s) and %s", call.Path.To, a.of, own, other)
	if len(callers) == 1 && len(m.names) > 1 {
		f.Nodes = append(f.Nodes, callers[0])
		f.Got += "; it alone says so"
	}
	if known {
		f.Remedy = append(f.Remedy, fix.On("sudo arping -D -c 3 -I %s %s   # every other machine that answers holds it too", fix.Name(held.Name), address).At(a.of))
	}
	if fellow := m.withMAC(a); fellow != nil && known {
		if theirs, _, also := names.HolderOf(fellow, call.Path.To); also {
			f.Remedy = append(f.Remedy, fix.On("sudo ip addr del %s/%s dev %s   # until the next boot", address, fix.Number(network.Bits()), fix.Name(theirs.Name)).At(fellow.Name))
		}
	} else {
		f.Remedy = append(f.Remedy, fix.Note("find the machine that is not to have the address by its MAC, in the switch's table, and take the address from it: ip addr del"))
	}
	f.Remedy = append(f.Remedy, fix.On("sudo ip neigh flush to %s   # once it is taken away", address).At(callers...))
	if !slices.ContainsFunc(a.calls, m.isMade) {
		f = oneWay(f)
	}
	return f
}

// withMAC is the node of this launch that has the MAC of the other machine, nil for none.
func (m *meshCalls) withMAC(a another) *facts.Node {
	return names.First(m.view.Everywhere(), func(node *facts.Node) bool {
		return node.Name != a.of && slices.Contains(macsOf(node), strings.ToLower(a.mac))
	})
}
