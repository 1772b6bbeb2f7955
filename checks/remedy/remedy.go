// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"path"
	"slices"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/launch"
)

// Again returns the options with which preflight repeats this run without the launch command: the
// same environment, and the same way to the nodes. Each option has a space before it.
func Again(view checks.View) fix.Arg {
	p := view.Launch
	var options []fix.Arg
	add := func(is bool, option fix.Arg) {
		if is {
			options = append(options, option)
		}
	}
	add(p.Launcher != "" && p.Launcher != launch.DefaultLauncher, fix.Code(" --launcher %s", fix.Word(p.Launcher)))
	add(p.Torchrun(), fix.Code(" --rendezvous %s", fix.Word(p.Rendezvous)))
	add(p.SSHPort != 0, fix.Code(" --ssh_port %s", fix.Number(p.SSHPort)))
	add(p.InterpreterFrom == launch.FromFlag && path.IsAbs(p.Interpreter), fix.Code(" --python %s", fix.Path(p.Interpreter)))
	_, noDriver := view.NotTried[facts.SectionNVML]
	add(noDriver && p.Accelerator == "cpu", fix.Code(" --accelerator cpu"))
	if b := view.Policy.Baseline; b != nil {
		add(b.Via != "", fix.Code(" --via %s", fix.Word(b.Via)))
		add(b.In != "", fix.Code(" --in %s", fix.Word(b.In)))
	}
	if options == nil {
		return fix.Code("")
	}
	return fix.Join("", options...)
}

// SetClock is the command that synchronises a clock with the machine's time servers, now and
// permanently.
const SetClock = "sudo chronyc makestep || sudo timedatectl set-ntp true"

// EitherWay returns the remedies for a difference between two groups of nodes of equal size. There
// is one alternative for each group that may be right. install returns the commands that give the
// nodes of a difference the values in its Want fields. EitherWay returns nil if there are more than
// two groups, or if install knows no command.
func EitherWay(d compare.Difference, install func(compare.Difference) []fix.Command) (commands []fix.Command) {
	groups := d.Deviations[0].Groups
	for right := range groups {
		if len(groups) != 2 {
			return nil
		}
		towards := compare.Difference{Nodes: groups[1-right].Nodes}
		for _, dev := range d.Deviations {
			if len(dev.Groups) != 2 || !slices.Equal(dev.Groups[0].Nodes, groups[0].Nodes) {
				return nil
			}
			towards.Deviations = append(towards.Deviations, compare.Deviation{
				Name: dev.Name, Got: dev.Groups[1-right].Value, Want: dev.Groups[right].Value,
			})
		}
		for _, command := range install(towards) {
			if command.Role() == fix.Look {
				return nil
			}
			command = command.At(towards.Nodes...)
			if nodes := fix.Text(hostfile.Fold(groups[right].Nodes)); len(groups[right].Nodes) == 1 {
				command = command.Remark("if %s is right", nodes)
			} else {
				command = command.Remark("if %s are right", nodes)
			}
			commands = append(commands, command.As(fix.Or))
		}
	}
	return commands
}

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
