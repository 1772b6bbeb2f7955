// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// Firewall returns the commands that open a node's firewall. It chooses by the firewall that is
// active on the node: changes by another program are lost when the active one reloads. If that is
// unknown, the commands for the programs that the node has are alternatives.
func Firewall(node *facts.Node, iptables, firewalld, ufw fix.Command) []fix.Command {
	if node == nil || node.Host == nil {
		node = &facts.Node{Facts: facts.Facts{Host: &facts.Host{}}}
	}
	active, tools := node.Host.Firewalls, node.Host.Tools
	has := func(program string) bool { return slices.Contains(tools, program) }
	var offered []fix.Command
	if slices.Contains(active, facts.Firewalld) {
		offered = append(offered, firewalld)
	}
	if slices.Contains(active, facts.UFW) {
		offered = append(offered, ufw)
	}
	switch {
	case offered != nil:
		return fix.Alternatives(offered...)
	case active != nil && has("iptables"):
		return []fix.Command{iptables}
	case active != nil && has("nft"):
		return []fix.Command{fix.Note("list the rules on %s with sudo nft list ruleset, and accept these packets in the chain that drops them", fix.Text(node.Name))}
	}
	firewalld, ufw = firewalld.Remark("if firewalld is active"), ufw.Remark("if ufw is active")
	for _, one := range []struct {
		program string
		command fix.Command
	}{{"iptables", iptables}, {"firewall-cmd", firewalld}, {"ufw", ufw}} {
		if has(one.program) {
			offered = append(offered, one.command)
		}
	}
	if offered == nil {
		offered = []fix.Command{iptables, firewalld, ufw}
	}
	return fix.Alternatives(offered...)
}
