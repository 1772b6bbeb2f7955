package checks

import (
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
)

// fullPing fills a packet on the way between two nodes: the smaller of their
// MTUs less the headers of IP and ICMP.
func fullPing(from, to *facts.Node, mss int) fix.Command {
	const ipv4, ipv6 = 28, 48
	headers := ipv4
	if strings.Contains(to.Mesh.Address, ":") {
		headers = ipv6
	}
	payload := min(meshInterface(from).MTU, meshInterface(to).MTU) - headers
	if payload < mss {
		payload = mss // an MTU was not seen
	}
	return fix.On("ping -c 1 -M do -s %s %s", fix.Number(payload), fix.Host(to.Mesh.Address)).At(from.Name).
		Remark("lower -s until it passes: the MTU is %s more", fix.Number(headers))
}

// narrower is what a path may carry that loses full packets: Ethernet's 1500
// where they were larger, else the 1280 that everything carries that IPv6 passes.
func narrower(mtu int) int {
	if mtu > 1500 {
		return 1500
	}
	return 1280
}

func vanishing(s suspect, sent []attempt) string {
	peers := "any other node"
	if !s.all {
		peers = hostfile.Fold(s.peers)
	}
	switch s.kind {
	case everywhere:
		return "between all of the nodes"
	case between:
		return "between " + foldSets(s.sets)
	case inbound:
		return "on the way in from " + peers
	case outbound:
		return "on the way out to " + peers
	case bothWays:
		return "to and from " + peers
	}
	lines := arrows(sent, s.failed)
	if len(lines) > 1 {
		return "between some nodes"
	}
	return lines[0]
}
