package remedy

import (
	"slices"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/hostfile"
)

// Pip is that of the launch's interpreter.
func Pip(view checks.View) fix.Pip {
	python := view.Launch.Interpreter
	nodes := ranks.Answering(view)
	if python == "" && len(nodes) > 0 {
		python = nodes[0].Python.Path
	}
	return fix.Pip{Python: python, Managed: slices.ContainsFunc(nodes, func(n *facts.Node) bool {
		return n.Python.Prefix == "/usr" && !hostfile.Before(n.Python.Version, "3.11")
	})}
}

// PipFix installs what most nodes have of many packages. Which side is right
// of a split is the user's to say: then it only lists.
func PipFix(view checks.View, d compare.Difference) []fix.Command {
	if d.Split {
		return []fix.Command{Pip(view).List()}
	}
	var install []fix.Requirement
	var remove []string
	for _, dev := range d.Deviations {
		if dev.Want == "" {
			remove = append(remove, dev.Name)
		} else {
			install = append(install, fix.Requirement{Name: dev.Name, Version: dev.Want})
		}
	}
	commands := Pip(view).Install(install)
	if remove != nil {
		commands = append(commands, Pip(view).Run("uninstall -y %s", fix.List[fix.Package](" ", remove)))
	}
	return commands
}
