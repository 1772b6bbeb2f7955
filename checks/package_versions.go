package checks

import (
	"fmt"
	"slices"
	"strings"

	"preflight/facts"
)

// packageFindings compares one package that the launch cannot do without.
func packageFindings(view View, name string) []Finding {
	value := func(n *facts.Node) string { return n.Python.Packages[name] }
	if !slices.ContainsFunc(answering(view), func(n *facts.Node) bool { return value(n) != "" }) {
		return nowhere(view, name)
	}
	return versionFindings(view, name, value)
}

// versionFindings compares one package's version, absent counted. The message
// of a node that has none is filled in, the others' is left to the caller.
func versionFindings(view View, name string, value func(*facts.Node) string) []Finding {
	nodes := answering(view)
	var findings []Finding
	for _, d := range differences(nodes, []aspect{{name, value}}) {
		f := d.finding(name + " versions")
		f.Fix = pipFix(interpreter(view, nodes[0]), d)
		if d.lacking() {
			f.Summary = name + " is not installed"
			f.WouldSee = fmt.Sprintf("ModuleNotFoundError: No module named '%s'", name)
		}
		findings = append(findings, f)
	}
	return findings
}

// pipFix installs what most nodes have. Which side is right of a split is the
// user's to say: then it only lists.
func pipFix(python string, d difference) []string {
	var install, remove []string
	for _, dev := range d.Deviations {
		if dev.Want == "" {
			remove = append(remove, shellWord(dev.Name))
		} else {
			install = append(install, shellWord(dev.Name+"=="+dev.Want))
		}
	}
	pip := "{ssh} " + python + " -m pip "
	var fix []string
	if d.Split {
		return []string{pip + "list"}
	}
	if install != nil {
		fix = append(fix, pip+"install "+strings.Join(install, " "))
	}
	if remove != nil {
		fix = append(fix, pip+"uninstall -y "+strings.Join(remove, " "))
	}
	return fix
}
