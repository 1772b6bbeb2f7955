// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// Firewall returns those of the commands whose program a node has: the first as the fix, the others
// as alternatives. It returns all of them if the node's programs are unknown or it has none of
// these.
func Firewall(node *facts.Node, iptables, firewalld, ufw fix.Command) []fix.Command {
	var offered []fix.Command
	for _, one := range []struct {
		program string
		command fix.Command
	}{{"iptables", iptables}, {"firewall-cmd", firewalld}, {"ufw", ufw}} {
		if node != nil && node.Host != nil && slices.Contains(node.Host.Tools, one.program) {
			offered = append(offered, one.command)
		}
	}
	if offered == nil {
		offered = []fix.Command{iptables, firewalld, ufw}
	}
	return fix.Alternatives(offered...)
}
