// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"path"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
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
