// SPDX-License-Identifier: Apache-2.0

package launch

import "preflight/facts"

// FromFlag is the origin of an interpreter that the user named.
const FromFlag = "--python"

// Interpreter returns the python that every node will run, and where its path comes from. DeepSpeed
// sends its own sys.executable to the nodes. Interpreter returns the given path if it is not empty.
// Otherwise it returns the path in the first line of the deepspeed script on the launching machine,
// or ("", "") if that is unknown. The path is absolute and must exist on every node.
//
// Source: deepspeed/launcher/multinode_runner.py, sys.executable in every runner's get_cmd.
func Interpreter(given string, head *facts.Launcher) (path, from string) {
	if given != "" {
		return given, FromFlag
	}
	if head != nil && head.Interpreter != "" {
		return head.Interpreter, head.DeepSpeed
	}
	return "", ""
}
