package checks

import (
	"fmt"

	"preflight/checks/fix"
	"preflight/facts"
)

// unreadable is the nodes that have a file which the launch cannot use, and
// those where it was not read.
func unreadable(view View, nodes []*facts.Node, named facts.LaunchFile) []Finding {
	var findings []Finding
	for _, node := range nodes {
		f := Finding{Nodes: []string{node.Name}, Remedy: []fix.Command{fix.On("namei -l %s", fix.Path(named.Path))}}
		switch file := at(node, named); {
		case file == nil:
			findings = append(findings, unknown(node, named.Path+" was not looked at"))
			continue
		case !file.Exists:
			continue
		case file.Problem == "permission denied":
			f.Summary = named.Path + " cannot be read"
			f.Got = file.Problem
			f.WouldSee = fmt.Sprintf("PermissionError: [Errno 13] Permission denied: '%s'", shortName(view.Launch, named.Path))
		case file.Problem != "":
			findings = append(findings, unknown(node, named.Path+": "+file.Problem))
			continue
		case named.Role == facts.RoleScript && view.Launch.NoPython && !file.Exec:
			f.Summary = named.Path + " is not executable, and --no_python runs it as a program"
			f.WouldSee = fmt.Sprintf("PermissionError: [Errno 13] Permission denied: '%s'", view.Launch.Script)
			f.Remedy = []fix.Command{fix.On("chmod +x %s", fix.Path(named.Path))}
		default:
			continue
		}
		if named.Role == facts.RoleArgument {
			f.Verdict = Warn
		}
		findings = append(findings, ofMachine(view, node, f))
	}
	return findings
}
