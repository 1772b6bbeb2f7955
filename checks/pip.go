package checks

import (
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// pipFix installs what most nodes have of many packages. Which side is right
// of a split is the user's to say: then it only lists.
func pipFix(view View, d difference) []string {
	if d.Split {
		return []string{byPip(view, "list")}
	}
	var install, remove, fix []string
	for _, dev := range d.Deviations {
		if dev.Want == "" {
			remove = append(remove, remoteWord(dev.Name))
		} else {
			install = append(install, remoteWord(dev.Name+"=="+dev.Want))
		}
	}
	if install != nil {
		fix = append(fix, byPip(view, "install "+strings.Join(install, " ")))
	}
	if remove != nil {
		fix = append(fix, byPip(view, "uninstall -y "+strings.Join(remove, " ")))
	}
	return fix
}

// byPip is a command for pip of the launch's interpreter. That of a distribution which
// keeps pip off its own python (PEP 668: Debian 12, Ubuntu 23.04, with python 3.11) is
// told by a variable that it may: pip before 23.0.1 does not know the option, and
// passes over a variable that it does not know.
func byPip(view View, command string) string {
	python := view.Launch.Interpreter
	nodes := answering(view)
	if python == "" && len(nodes) > 0 {
		python = nodes[0].Python.Path
	}
	line := remoteWord(python) + " -m pip " + command
	guarded := func(n *facts.Node) bool {
		return n.Python.Prefix == "/usr" && !launch.Before(n.Python.Version, "3.11")
	}
	if command == "list" || !slices.ContainsFunc(nodes, guarded) {
		return "{ssh} " + line
	}
	return remarked("{ssh} env PIP_BREAK_SYSTEM_PACKAGES=1 "+line, "or, better, have the launch use a venv")
}

// remarked is a command with a remark for its reader, after those that it has.
func remarked(command, remark string) string {
	if strings.Contains(command, "   # ") {
		return command + "; " + remark
	}
	return command + "   # " + remark
}
