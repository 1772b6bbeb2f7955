// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"path"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// Again are the options, each behind a blank, by which a preflight that is typed without the
// launch command looks at what this run did, in the environment it did, by the way it went.
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

// SetClock has a clock set by the time servers that its machine knows, at once and from then on.
const SetClock = "sudo chronyc makestep || sudo timedatectl set-ntp true"
