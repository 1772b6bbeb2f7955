package checks

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/facts"
	"preflight/launch"
)

// workDirVerdict is Warn for a launch that starts wherever it is: it names
// neither script nor configuration by a path below the directory.
func workDirVerdict(p launch.Prediction) Verdict {
	below := func(file facts.LaunchFile) bool {
		return file.Role != facts.RoleArgument && strings.HasPrefix(file.Path, path.Clean(p.WorkDir)+"/")
	}
	if p.Script == "" || p.Module || slices.ContainsFunc(p.Files, below) {
		return Fail
	}
	return Warn
}

// workDirError is what the launch says on the node, and what comes of it.
func workDirError(p launch.Prediction, node *facts.Node, said string) string {
	home := "~"
	if node.Host != nil && node.Host.Home != "" {
		home = node.Host.Home
	}
	by := p.StartedBy()
	if by.Name == "" {
		return fmt.Sprintf("bash: cd: %s: %s, where the command is to be typed", p.WorkDir, said)
	}
	home = cmp.Or(by.Elsewhere, home)
	text := strings.NewReplacer("{dir}", p.WorkDir, "{error}", said, "{home}", home).Replace(by.NoWorkDir)
	script := p.Script
	switch {
	case script == "" || p.Module || p.NoPython && !strings.Contains(script, "/") || workDirVerdict(p) == Warn:
		return text + ", and the ranks run in " + home
	case p.NoPython:
		return fmt.Sprintf("%s, then: FileNotFoundError: [Errno 2] No such file or directory: '%s'", text, script)
	case !path.IsAbs(script):
		script = path.Join(home, script)
	}
	return fmt.Sprintf("%s, then: can't open file '%s': [Errno 2] No such file or directory", text, script)
}
