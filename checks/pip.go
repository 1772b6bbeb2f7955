package checks

import (
	"regexp"
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
	var install []deviation
	var remove []string
	for _, dev := range d.Deviations {
		if dev.Want == "" {
			remove = append(remove, remoteWord(dev.Name))
		} else {
			install = append(install, dev)
		}
	}
	fix := pipInstall(view, install)
	if remove != nil {
		fix = append(fix, byPip(view, "uninstall -y "+strings.Join(remove, " ")))
	}
	return fix
}

// pytorchLabel is what pytorch.org's own builds have behind the "+" of their versions.
// There is an index for each.
//
// Source: https://download.pytorch.org/whl, as https://pytorch.org/get-started names it.
var pytorchLabel = regexp.MustCompile(`^(cpu|cu\d+|rocm\d[\d.]*)$`)

// pipInstall are the commands that install packages in the very versions wanted, one for
// each index that has such builds. What a team has built itself ("2.6.0a0+ecddbd81a.nv24.12")
// no index has, for PyPI takes no version with a "+".
func pipInstall(view View, wanted []deviation) (fix []string) {
	var indexes, built []string
	packages := map[string][]string{} // by index, "" for the usual one
	for _, p := range wanted {
		public, label, labelled := strings.Cut(p.Want, "+")
		index := ""
		switch {
		case pytorchLabel.MatchString(label) && strings.Contains(public, ".dev"):
			index = "https://download.pytorch.org/whl/nightly/" + label
		case pytorchLabel.MatchString(label):
			index = "https://download.pytorch.org/whl/" + label
		case labelled:
			if !isPlain(p.Name) { // it goes behind a #, where a line must not end
				p.Name = "a package"
			}
			built = append(built, p.Name)
			continue
		}
		if !slices.Contains(indexes, index) {
			indexes = append(indexes, index)
		}
		packages[index] = append(packages[index], remoteWord(p.Name+"=="+p.Want))
	}
	for _, index := range indexes {
		command := "install " + strings.Join(packages[index], " ")
		if index != "" {
			command += " --index-url " + index
		}
		fix = append(fix, byPip(view, command))
	}
	if built != nil {
		fix = append(fix, remarked(byPip(view, "list"), "no index has the build of "+strings.Join(built, ", ")+": install the wheel that it came from"))
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
