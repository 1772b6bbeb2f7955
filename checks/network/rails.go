// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/proof"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch/nccl"
)

var RailMesh = checks.Check{
	ID:        "rail-mesh",
	Severity:  checks.Error,
	Volatile:  true,
	Needs:     []facts.Section{facts.SectionRails},
	DependsOn: []string{"node-mesh"},
	Run:       judgeRails,
}

func judgeRails(view checks.View) (findings []checks.Finding) {
	taking := ranks.TakingRails(view, proof.RailsAnswered(view.Nodes))
	for _, name := range proof.RailNames(view.Nodes) {
		findings = append(findings, newRail(view, name, taking).judge()...)
	}
	if len(findings) == 0 {
		findings = crossing(view)
	}
	return findings
}

// rail is one rail of the fleet, with the nodes that have it.
type rail struct {
	view  checks.View
	name  string
	nodes map[string]*facts.Node
	names []string // nodes that have the rail

	taking facts.Setting // the setting that makes NCCL use only the rails that answered
}

func newRail(view checks.View, name string, taking facts.Setting) rail {
	r := rail{view: view, name: name, taking: taking, nodes: map[string]*facts.Node{}}
	for _, node := range view.Nodes {
		if proof.RailNamed(node, name) != nil {
			r.nodes[node.Name], r.names = node, append(r.names, node.Name)
		}
	}
	return r
}

func (r rail) on(node string) *facts.Rail { return proof.RailNamed(r.nodes[node], r.name) }

func (r rail) judge() (findings []checks.Finding) {
	var calls []proof.Attempt
	for _, name := range r.names {
		same := &r.on(name).Same
		if same.Error != "" {
			findings = append(findings, checks.UnknownFor(r.nodes[name], fmt.Sprintf("rail %s: %s", r.name, same.Error)))
		}
		for peer := range same.Reached {
			if r.nodes[peer] != nil {
				calls = append(calls, proof.Attempt{From: name, To: peer})
			}
		}
		for i := range same.Failed {
			path := &same.Failed[i]
			switch {
			case r.nodes[path.Peer] == nil:
			case path.Outcome == facts.PathBroken, path.Outcome == facts.PathUntried, path.Outcome == facts.PathTaken:
				findings = append(findings, checks.UnknownFor(r.nodes[name], fmt.Sprintf("rail %s: could not connect to %s: %s", r.name, path.Peer, path.Error)))
			default:
				calls = append(calls, proof.Attempt{From: name, To: path.Peer, Failed: true, How: string(path.Outcome), Path: path})
			}
		}
	}
	shareReasons(calls)
	for _, s := range proof.Suspects(r.names, calls) {
		findings = append(findings, r.finding(s))
	}
	return findings
}

func (r rail) finding(s proof.Suspect) checks.Finding {
	call := r.first(s)
	from, to := r.on(call.From), r.on(call.To)
	f := checks.Finding{
		Nodes:    s.Nodes,
		Got:      r.got(s),
		Want:     "answers from every node on rail " + r.name,
		WouldSee: r.wouldSee(call.Path),
		Remedy:   []fix.Command{fix.On("ip neigh show %s dev %s; ip -s link show dev %[2]s", fix.Host(call.Path.To), fix.Name(from.Same.Interface)).At(call.From).As(fix.Look)},
	}
	cause := outcomeWords[facts.PathOutcome(s.How)].cause
	other := r.answersInstead(s)
	switch {
	case other != "" && s.Kind == proof.Everywhere:
		cause = "interfaces of one node answer ARP for each other, so packets reach the wrong port"
		f.Want = "every interface answers only for its own addresses"
		f.Remedy = append(f.Remedy, ownAddressesAlone)
	case other != "":
		cause = fmt.Sprintf("port %s of the same node answers: cables or addresses look swapped", other)
		f.Want = "each cable in the port of its rail"
		f.Remedy = append(f.Remedy, fix.On("ip -br addr; lldpctl   # the switch port of each cable").As(fix.Look), fix.Note("swap the two cables, or the two addresses"))
	case s.How == string(facts.PathUnresolved):
		cause = "no machine on the rail answers for the address"
		f.Remedy = append(f.Remedy, fix.On("sudo arping -c 3 -I %s %s", fix.Name(from.Same.Interface), fix.Host(call.Path.To)).At(call.From).As(fix.Look),
			fix.On("ip -d link show dev %s; sysctl -a -r 'arp_(ignore|filter)'   # also check its switch port: link, VLAN", fix.Name(to.Same.Interface)).At(call.To).As(fix.Look))
	case s.How == string(facts.PathBlackhole):
		cause = "full packets are lost, small ones pass"
		f.Remedy = append(f.Remedy, fix.On("ip link show dev %s   # every switch on the way must carry its MTU", fix.Name(from.Same.Interface)).As(fix.Look))
	case s.How == string(facts.PathRefused) && from.Layer != "":
		cause = "another port of the node, or a firewall, resets connections"
		f.Remedy = append(f.Remedy, ownAddressesAlone, fix.On("sudo iptables -S; sudo nft list ruleset").At(call.To).As(fix.Look))
	case s.How == string(facts.PathUnroutable):
		cause = "the caller has no route there"
		f.Remedy = append(f.Remedy, fix.On("ip route get %s oif %s", fix.Host(call.Path.To), fix.Name(from.Same.Interface)).At(call.From).As(fix.Look))
	default:
		f.Remedy = append(f.Remedy, fix.On("sudo iptables -S; sudo nft list ruleset   # what drops or rejects packets on %s", fix.Name(to.Same.Interface)).At(call.To).As(fix.Look))
	}
	f.Summary = r.summary(s) + ": " + cause
	f.Remedy = append(f.Remedy, r.without()...)
	isProof := s.How == string(facts.PathUnresolved) || s.How == string(facts.PathUnroutable) || other != ""
	switch {
	case from.Layer == nccl.LayerInfiniBand:
		f.Verdict, f.WouldSee = checks.Warn, "nothing, if InfiniBand itself works: NCCL sends no data over IP there"
	case from.Layer == nccl.LayerRoCE && !isProof:
		f.Verdict, f.WouldSee = checks.Warn, "nothing, if only TCP is blocked; otherwise Got completion from peer … with status=12 (retry exceeded)"
	}
	return f
}

// ownAddressesAlone is the command that makes every interface answer only for its own addresses. By
// default, Linux answers on any interface for all addresses of a machine
// (Documentation/networking/ip-sysctl.rst, arp_ignore).
var ownAddressesAlone = fix.On("sudo sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2   # until the next boot; for ports on one switch")

func (r rail) summary(s proof.Suspect) string {
	on := " on rail " + r.name
	if by := r.on(s.Failed[0].From).Same.Interface; by != r.name {
		on += " (" + by + ")"
	}
	if s.Kind == proof.Directions {
		return strings.Join(atMost(3, proof.Arrows(s.Failed), "%d more"), ", ") + " does not get through" + on
	}
	return unreached(s, on)
}

func (r rail) got(s proof.Suspect) string {
	call := r.first(s)
	text := fmt.Sprintf("%s; %s to %s from %s", outcomes(s), call.From, where(call.Path), r.on(call.From).Same.Address)
	if call.Path.Error != "" {
		text += ": " + call.Path.Error
	}
	return text
}

// first returns the first connection of a suspect that has the most frequent outcome.
func (r rail) first(s proof.Suspect) proof.Attempt {
	at := slices.IndexFunc(s.Failed, func(call proof.Attempt) bool { return string(call.Path.Outcome) == s.How })
	return s.Failed[max(0, at)]
}

// answersInstead returns the callee's interface that answered most callers for the address of a
// different interface of the callee. It returns "" if no interface did.
func (r rail) answersInstead(s proof.Suspect) (name string) {
	count := 0
	for _, call := range s.Failed {
		to, net := r.on(call.To), r.nodes[call.To].Net
		if net == nil {
			continue
		}
		for _, i := range net.Interfaces {
			if call.Path.MAC != "" && i.MAC == call.Path.MAC && i.Name != to.Same.Interface {
				name = i.Name
				count++
				break
			}
		}
	}
	if 2*count <= len(s.Failed) {
		return ""
	}
	return name
}

func (r rail) wouldSee(path *facts.Path) string {
	if r.on(r.names[0]).Layer == "" {
		return (&meshCalls{view: r.view}).wouldSee(path)
	}
	switch path.Outcome {
	case facts.PathUnresolved:
		return "Call to ibv_modify_qp failed with error Connection timed out"
	case facts.PathUnroutable:
		return "Call to ibv_modify_qp failed with error Network is unreachable"
	}
	return "Got completion from peer … with status=12 (retry exceeded)"
}

// without returns the commands that make NCCL avoid this rail. It returns none unless other rails
// answered.
func (r rail) without() []fix.Command {
	if r.taking.Value == "" {
		return nil
	}
	takes := ranks.ExportLine(r.view.Launch, r.taking.Name, r.taking.Value).Remark("until that is repaired: uses only the rails that answered").As(fix.Or)
	if given := ranks.Env(r.view, r.nodes[r.names[0]]).Get(r.taking.Name); given.Value != "" {
		return append(text.Map(ranks.TakeOut(r.view, given), func(c fix.Command) fix.Command { return c.As(fix.Or) }), takes)
	}
	return []fix.Command{takes}
}

// crossing returns findings for nodes where NCCL must connect rings across rails although the rails
// do not reach each other. By default, NCCL tries to avoid connections across rails (NVIDIA/nccl
// 2.30.7, graph/search.cc, ncclTopoCompute).
func crossing(view checks.View) (findings []checks.Finding) {
	if !proof.RailsApart(view.Nodes) {
		return nil
	}
	for _, node := range view.Nodes {
		given := ranks.Env(view, node).Get("NCCL_CROSS_NIC")
		if value, isNumber := nccl.Number(given.Value); !isNumber || value != 1 {
			continue
		}
		findings = append(findings, checks.Finding{
			Nodes:   []string{node.Name},
			Summary: "NCCL_CROSS_NIC=1 joins rails that cannot reach each other",
			Got:     ranks.Origin(view, given),
			Want:    "rings that stay on one rail",
			Remedy:  append(ranks.TakeOut(view, given), ranks.ExportLine(view.Launch, "NCCL_CROSS_NIC", "0")),
		})
	}
	return findings
}
