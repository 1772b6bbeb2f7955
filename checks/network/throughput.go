// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"slices"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/checks/proof"
	"preflight/facts"
	"preflight/internal/text"
)

var Throughput = checks.Check{
	ID:       "throughput",
	Severity: checks.Warning,
	Needs:    []facts.Section{facts.SectionThroughput},
	Run:      judgeLinks,
}

func judgeLinks(view checks.View) []checks.Finding {
	var findings []checks.Finding
	var rates []float64
	measured := map[string]*facts.Node{} // receiver → the sender of the measured link
	nodes := map[string]*facts.Node{}
	for _, node := range view.Nodes {
		nodes[node.Name] = node
		switch link := node.Throughput; {
		case link.Error == "":
			rates = append(rates, link.Rate)
			measured[link.Peer] = node
		case proof.HasFailed(node.Mesh, link.Peer, func(facts.Path) bool { return true }):
			findings = append(findings, checks.Skipped("not measured between nodes that cannot reach each other: see node-mesh")...)
		default:
			findings = append(findings, checks.UnknownFor(node, "throughput: "+link.Error))
		}
	}
	usual := usualRate(rates)
	isShared := slices.ContainsFunc(view.Nodes, func(node *facts.Node) bool { return node.Throughput.Shared })
	isSlow := func(node *facts.Node) bool {
		return node != nil && node.Throughput.Error == "" && node.Throughput.Rate < usual/2
	}
	var below []*facts.Node // senders whose links are as fast as the others, but slower than their interfaces
	slowNode := func(node *facts.Node) bool { return len(rates) > 2 && isSlow(node) && isSlow(measured[node.Name]) }
	for _, node := range view.Nodes {
		peer := nodes[node.Throughput.Peer]
		switch {
		case isSlow(node) && isShared:
			findings = append(findings, checks.UnknownFor(node, "another preflight was measuring on these nodes, which can make a link look slow: run it again"))
		case slowNode(node):
			findings = append(findings, slowLink(view, node, usual, "sends and receives at less than half of the usual rate", node.Name))
		case isSlow(node) && peer != nil && slowNode(peer):
			// The peer of this node is at fault.
		case isSlow(node):
			findings = append(findings, slowLink(view, node, usual, fmt.Sprintf("the link %s → %s has less than half of the usual rate", node.Name, node.Throughput.Peer), node.Name, node.Throughput.Peer))
		case node.Throughput.Error == "" && !node.Throughput.Shared && node.Throughput.Rate < least(node, peer):
			below = append(below, node)
		}
	}
	if below != nil {
		findings = append(findings, belowTheirSpeed(below))
	}
	return findings
}

// easily is the rate in bit/s that the test's connections reach with any CPU. The test says nothing
// about faster links.
const easily = 25e9

// least returns the minimum rate of a link in bit/s, derived from the speed that both ends report.
// It returns 0 if an end reports no speed or is not a network card. A veth is not one: it always
// reports 10 Gbit/s.
func least(node, peer *facts.Node) float64 {
	if peer == nil || !isCard(node) || !isCard(peer) {
		return 0
	}
	return min(float64(min(linkSpeed(node), linkSpeed(peer))), easily) / 2
}

func isCard(node *facts.Node) bool {
	if node.Throughput == nil {
		return false
	}
	return slices.Contains([]string{"physical", "bond", "vlan", "infiniband"}, names.InterfaceOf(node.Net, node.Throughput.Interface).Kind)
}

// belowTheirSpeed returns the finding for links that are all equally slow.
func belowTheirSpeed(senders []*facts.Node) checks.Finding {
	slowest := slices.MinFunc(senders, func(a, b *facts.Node) int { return cmp.Compare(a.Throughput.Rate, b.Throughput.Rate) })
	link := slowest.Throughput
	f := checks.Finding{
		Nodes:   checks.NamesOf(senders),
		Summary: "all links carry less than half of the speed of their interfaces",
		Got:     fmt.Sprintf("slowest link: %s out of %s, on %s of %s", text.BitRate(link.Rate), text.BitRate(float64(linkSpeed(slowest))), link.Interface, slowest.Name),
		Want:    fmt.Sprintf("%s or more", text.BitRate(min(float64(linkSpeed(slowest)), easily)/2)),
		Remedy: []fix.Command{
			fix.On("ip -s -s link show dev %s; ip -d link show dev %[1]s | grep -o 'mtu [0-9]*'   # errors and drops; the MTU: 9000 if the switches allow it", fix.Name(link.Interface)).As(fix.Look),
			fix.On("ethtool --show-offload %s | grep -E 'segmentation|receive-offload'; sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem", fix.Name(link.Interface)).As(fix.Look),
		},
	}
	return f
}

// usualRate returns the median rate, and the upper of the two middle rates if the number is even.
// For three links it returns the fastest rate, because one slow node slows two of them.
func usualRate(rates []float64) float64 {
	n := len(rates)
	if n == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(rates))[max(n/2, min(2, n-1))]
}

func slowLink(view checks.View, node *facts.Node, usual float64, summary string, named ...string) checks.Finding {
	f := checks.Finding{
		Nodes:   named,
		Summary: summary,
		Got:     fmt.Sprintf("%s from %s to %s", text.BitRate(node.Throughput.Rate), node.Name, node.Throughput.Peer),
		Want:    fmt.Sprintf("about %s, as between most nodes", text.BitRate(usual)),
		Remedy: []fix.Command{
			fix.On("ethtool %s | grep -iE 'speed|duplex|link'", fix.Name(node.Throughput.Interface)).As(fix.Look),
			fix.On("ip -s -s link show dev %s   # errors and drops", fix.Name(node.Throughput.Interface)).As(fix.Look),
		},
	}
	own := linkSpeed(node)
	for _, other := range view.All {
		if speed := linkSpeed(&other); own != 0 && speed > own {
			f.Got += fmt.Sprintf("; its %s runs at %s, others at %s", node.Throughput.Interface, text.BitRate(float64(own)), text.BitRate(float64(speed)))
			f.Want += "; interfaces, cables and ports of the same speed"
			break
		}
	}
	return f
}

// linkSpeed returns the speed in bit/s that the interface of a node's link reports, or 0 if it is
// unknown.
func linkSpeed(node *facts.Node) int64 {
	if node.Throughput == nil {
		return 0
	}
	if speed := names.InterfaceOf(node.Net, node.Throughput.Interface).Speed; speed != nil {
		return *speed
	}
	return 0
}
