// SPDX-License-Identifier: Apache-2.0

package launch

import "preflight/facts"

// FromFlag is how we know an interpreter that was given.
const FromFlag = "--python"

// Interpreter is the python every node will run, and how we know.
// DeepSpeed sends its own sys.executable, so it is the one given, else the one
// that the first line of the deepspeed script on the launching machine names,
// else unknown ("", ""). It is an absolute path that must exist on every node.
//
// Source: deepspeed/launcher/multinode_runner.py, sys.executable in every
// runner's get_cmd.
func Interpreter(given string, head *facts.Launcher) (path, from string) {
	if given != "" {
		return given, FromFlag
	}
	if head != nil && head.Interpreter != "" {
		return head.Interpreter, head.DeepSpeed
	}
	return "", ""
}
