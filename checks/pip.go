package checks

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
	"preflight/launch"
)

// pip is that of the launch's interpreter.
func pip(view View) fix.Pip {
	python := view.Launch.Interpreter
	nodes := answering(view)
	if python == "" && len(nodes) > 0 {
		python = nodes[0].Python.Path
	}
	return fix.Pip{Python: python, Managed: slices.ContainsFunc(nodes, func(n *facts.Node) bool {
		return n.Python.Prefix == "/usr" && !launch.Before(n.Python.Version, "3.11")
	})}
}

// pipFix installs what most nodes have of many packages. Which side is right
// of a split is the user's to say: then it only lists.
func pipFix(view View, d difference) []fix.Command {
	if d.Split {
		return []fix.Command{pip(view).List()}
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
	commands := pip(view).Install(install)
	if remove != nil {
		commands = append(commands, pip(view).Run("uninstall -y %s", fix.List[fix.Package](" ", remove)))
	}
	return commands
}
