package checks

import (
	"fmt"
	"path"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// unqualified is about a program of --no_python that lies in the working
// directory and is named as if it did not: the ranks look for it in PATH alone.
//
// Source: deepspeed/launcher/launch.py, main, 0.19.8, which hands the name to
// subprocess.Popen.
func unqualified(view View, nodes []*facts.Node) []Finding {
	script := view.Launch.Script
	if !view.Launch.NoPython || strings.Contains(script, "/") {
		return nil
	}
	named := facts.LaunchFile{Path: path.Join(view.Launch.WorkDir, script), Role: facts.RoleArgument}
	var findings []Finding
	for _, node := range nodes {
		if !isThere(node, named) {
			continue
		}
		findings = append(findings, ofMachine(view, node, Finding{
			Nodes:    []string{node.Name},
			Summary:  fmt.Sprintf("%s is looked for in PATH, where the one of the working directory is not", script),
			Want:     "./" + script,
			WouldSee: fmt.Sprintf("FileNotFoundError: [Errno 2] No such file or directory: '%s'", script),
			Remedy:   []fix.Command{fix.Here("deepspeed --no_python … %s …", fix.Path("./"+script))},
		}))
	}
	return findings
}
