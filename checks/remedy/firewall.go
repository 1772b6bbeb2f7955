// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// Firewall returns the commands for the firewall programs that a node has. The first one is the
// fix, and the others are alternatives. It returns all commands if the node's programs are unknown,
// or if the node has none of the three programs.
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
