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
	"preflight/checks/remedy"
	"preflight/facts"
	"preflight/internal/text"
)

// openFirewall returns the commands that make a suspect accept connections from the peers'
// networks. If outgoing connections may be blocked, the commands allow these too. A first rule of
// iptables overrides later rules of iptables, but not those of firewalld or nftables.
func (m *meshCalls) openFirewall(s proof.Suspect) []fix.Command {
	networks := m.networks()
	if len(networks) == 0 {
		return []fix.Command{fix.On("sudo iptables -S; sudo nft list ruleset   # look for DROP and REJECT").As(fix.Look)}
	}
	var commands []fix.Command
	if s.Kind == proof.Between {
		first, other := s.Sets[0][0], s.Sets[1][0]
		commands = append(commands, fix.On("ip route get %s", fix.Host(m.nodes[other].Mesh.Address)).At(first).
			Remark("routers on the way from %s to %s must let TCP pass in both directions", fix.Host(first), fix.Host(other)).As(fix.Look))
	}
	list, command := fix.Name(strings.Join(networks, ",")), fix.Code("iptables")
	if strings.Contains(string(list), ":") {
		command = fix.Code("ip6tables")
	}
	var callers, callees []string // nil stands for the nodes of the finding
	if s.Kind == proof.Directions && len(s.Failed) == 1 {
		callers, callees = []string{s.Failed[0].From}, []string{s.Failed[0].To}
	}
	input := fix.On("sudo %s -I INPUT -p tcp -s %s -j ACCEPT   # until the firewall reloads", command, list).At(callees...)
	sources := text.Map(networks, func(network string) fix.Arg { return fix.Code("--add-source=%s", fix.Name(network)) })
	allow := text.Map(networks, func(network string) fix.Arg { return fix.Code("sudo ufw allow proto tcp from %s", fix.Name(network)) })
	where := slices.Concat(callees, s.Nodes)
	offered := remedy.Firewall(m.nodes[where[0]], input,
		fix.On("sudo firewall-cmd --permanent --zone=trusted %s && sudo firewall-cmd --reload", fix.Join(" ", sources...)).At(callees...),
		fix.On("%s", fix.Join(" && ", allow...)).At(callees...),
	)
	if s.Kind != proof.Inbound && offered[0].Is(input) {
		output := fix.On("sudo %s -I OUTPUT -p tcp -d %s -j ACCEPT   # needed only if the firewall also filters outgoing packets", command, list).At(callers...)
		offered = slices.Insert(offered, 1, output.As(fix.Then))
	}
	return append(commands, offered...)
}

// networks returns the networks of the ranks' addresses. It leaves out networks that are inside
// another network.
func (m *meshCalls) networks() []string {
	var prefixes []netip.Prefix
	for _, name := range m.names {
		network, known := meshNetwork(m.nodes[name])
		if !known {
			address, err := netip.ParseAddr(m.nodes[name].Mesh.Address)
			if err != nil {
				continue
			}
			network = netip.PrefixFrom(address, address.BitLen())
		}
		prefixes = append(prefixes, network)
	}
	// A network or an address inside another network needs no rule.
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(a.Bits(), b.Bits()), a.Addr().Compare(b.Addr()))
	})
	var networks []string
	for i, prefix := range prefixes {
		if !slices.ContainsFunc(prefixes[:i], func(wider netip.Prefix) bool { return wider.Overlaps(prefix) }) {
			networks = append(networks, prefix.String())
		}
	}
	return networks
}

// meshNetwork returns the network of the address at which a node listened.
func meshNetwork(node *facts.Node) (netip.Prefix, bool) {
	return names.NetworkOf(node, node.Mesh.Address)
}

// partlyOpen returns findings for nodes that accept connections only on some of their ports. If a
// node reports this about many nodes that others can reach, the reporting node itself is the
// suspect.
func (m *meshCalls) partlyOpen() []checks.Finding {
	if len(m.partly) == 0 {
		return nil
	}
	failed := func(call proof.Attempt) bool { return call.Failed }
	var findings []checks.Finding
	for _, s := range proof.Suspects(m.names, append(slices.DeleteFunc(slices.Clone(m.calls), failed), m.partly...)) {
		if s.Kind == proof.Outbound {
			findings = append(findings, m.finding(s))
			continue
		}
		slices.SortStableFunc(s.Failed, func(a, b proof.Attempt) int {
			return cmp.Compare(slices.Index(m.names, a.To), slices.Index(m.names, b.To))
		})
		got := text.Map(text.GroupBy(s.Failed, callee), func(to text.Group[string, proof.Attempt]) string { return openAndShut(to.All) })
		f := checks.Finding{
			Nodes:    s.Nodes,
			Summary:  fmt.Sprintf("a firewall lets through only some of %s: connections to the others are %s", m.ports(s.Nodes), s.How),
			Got:      strings.Join(atMost(3, got, "%d more nodes"), "; ") + m.sampled(),
			Want:     "the whole range open to the peers: NCCL and gloo listen on any port of it",
			WouldSee: m.wouldSee(s.Failed[0].Path),
			Remedy:   m.openFirewall(proof.Suspect{Kind: proof.Inbound, Nodes: s.Nodes}),
		}
		if s.Kind == proof.Directions {
			f.Summary = fmt.Sprintf("%s passes on only some of %s and is %s on the others: a firewall",
				strings.Join(atMost(3, proof.Arrows(s.Failed), "%d more"), ", "), m.ports(calleesOf(s.Failed)), s.How)
		}
		m.blame(s, &f)
		findings = append(findings, m.weighed(f, s.Failed))
	}
	return findings
}

// openAndShut lists the open and the closed ports of a node, as in "w3: 35007 open, 58123 closed".
func openAndShut(calls []proof.Attempt) string {
	var open, shut []int
	for _, call := range calls {
		open = append(open, call.Path.Open...)
		shut = append(append(shut, call.Path.Port), call.Path.Shut...)
	}
	return fmt.Sprintf("%s: %s open, %s closed", calls[0].To, listPorts(open), listPorts(shut))
}

func listPorts(ports []int) string {
	return strings.Join(text.Map(slices.Compact(slices.Sorted(slices.Values(ports))), strconv.Itoa), " and ")
}
