// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
)

var WorkdirPresent = checks.Check{
	ID:       "workdir-present",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionFiles},
	Run:      judgeWorkDir,
}

func judgeWorkDir(view checks.View) []checks.Finding {
	p := view.Launch
	switch {
	case p.WorkDir == "":
		return checks.Skipped("the working directory of the launch is unknown")
	case p.Local:
		return checks.Skipped("the ranks start on the launching machine, in this directory")
	case p.Torchrun() && p.Script == "":
		return checks.Skipped("you type torchrun on every node, in a directory of your choice")
	}
	nowhere := !slices.ContainsFunc(view.Nodes, func(n *facts.Node) bool { return n.Files.WorkDir.Exists })
	var lacking, closed []checks.Finding
	for _, node := range view.Nodes {
		dir, message := &node.Files.WorkDir, "No such file or directory"
		switch {
		case dir.Exists && dir.Problem == "":
			continue
		case dir.Exists && dir.Problem == "is a file":
			message = "Not a directory"
		case dir.Exists:
			message = "Permission denied"
		}
		f := checks.Finding{Verdict: workDirVerdict(p), Nodes: []string{node.Name}, Got: dir.Problem, WouldSee: workDirError(p, node, message)}
		switch {
		case dir.Exists && dir.Problem != "":
			f.Summary, f.Want = p.WorkDir+" cannot be entered", "a directory that the user of the launch can enter"
			f.Remedy = []fix.Command{fix.On("namei -l %s", fix.Path(p.WorkDir)).As(fix.Look)}
			closed = append(closed, f)
		case !dir.Exists && nowhere:
			f.Summary, f.Want = "no node has "+p.WorkDir+", the directory of the launch", "a directory that every node has at the same path"
			f.Remedy = bringWorkDir(view)
			if p.Script == "" { // no command was given, so the user may launch from another directory
				f.Verdict = checks.Warn
				f.Remedy = append([]fix.Command{fix.Here("cd …   # to the directory of the launch; then run preflight there").As(fix.Or)}, f.Remedy...)
			}
			lacking = append(lacking, f)
		case !dir.Exists:
			f.Summary, f.Want = p.WorkDir+" does not exist", "the directory of the launch on every node"
			f.Remedy = bringWorkDir(view)
			lacking = append(lacking, f)
		}
	}
	return append(lacking, closed...)
}

// bringWorkDir returns the commands that give {nodes} the directory. They mount it as the other
// nodes do, or copy it.
func bringWorkDir(view checks.View) []fix.Command {
	dir := view.Launch.WorkDir
	for _, node := range view.Nodes {
		if node.Files.WorkDir.Exists && ranks.RemoteMount(node, "workdir") != "" {
			return []fix.Command{fix.On("findmnt -T %s   # this node has the mount", fix.Path(dir)).At(node.Name).As(fix.Look), fix.On("sudo mount -a   # if /etc/fstab has that mount")}
		}
	}
	if isShared(view, dir) {
		return bringNamed(view)
	}
	return []fix.Command{fix.On("mkdir -p %s", fix.Path(dir)), fix.CopyTo(dir + "/").As(fix.Then)}
}

// workDirVerdict returns the verdict for a missing working directory. It is Warn for a launch that
// starts in any directory: neither the script nor the configuration is below the working directory.
func workDirVerdict(p launch.Prediction) checks.Verdict {
	below := func(file facts.LaunchFile) bool {
		return file.Role != facts.RoleArgument && strings.HasPrefix(file.Path, path.Clean(p.WorkDir)+"/")
	}
	if p.Script == "" || p.Module || slices.ContainsFunc(p.Files, below) {
		return checks.Fail
	}
	return checks.Warn
}

// workDirError returns the error message of the node, and the consequence of the error.
func workDirError(p launch.Prediction, node *facts.Node, message string) string {
	home := "~"
	if node.Host != nil && node.Host.Home != "" {
		home = node.Host.Home
	}
	by := p.StartedBy()
	if by.Name == "" {
		return fmt.Sprintf("bash: cd: %s: %s, where the command is to be typed", p.WorkDir, message)
	}
	home = cmp.Or(by.Elsewhere, home)
	text := strings.NewReplacer("{dir}", p.WorkDir, "{error}", message, "{home}", home).Replace(by.NoWorkDir)
	script := p.Script
	switch {
	case script == "" || p.Module || p.NoPython && !strings.Contains(script, "/") || workDirVerdict(p) == checks.Warn:
		return text + ", and the ranks run in " + home
	case p.NoPython:
		return fmt.Sprintf("%s, then: FileNotFoundError: [Errno 2] No such file or directory: '%s'", text, script)
	case !path.IsAbs(script):
		script = path.Join(home, script)
	}
	return fmt.Sprintf("%s, then: can't open file '%s': [Errno 2] No such file or directory", text, script)
}

// isShared reports whether a directory is not a project directory, but a home directory, a parent
// of home directories, or a directory for temporary files. preflight never copies such a directory,
// because the copy would replace keys, start-up files and caches.
func isShared(view checks.View, dir string) bool {
	dir = path.Clean(dir)
	if slices.Contains([]string{"/", "/tmp", "/var/tmp", "/dev/shm", "/root", "/home"}, dir) {
		return true
	}
	machines := slices.Clone(view.Nodes)
	if view.Head != nil {
		machines = append(machines, view.Head)
	}
	return slices.ContainsFunc(machines, func(machine *facts.Node) bool {
		if machine.Host != nil && strings.HasPrefix(path.Clean(machine.Host.Home)+"/", dir+"/") {
			return true
		}
		sources := sourcesSeen(machine)
		return sources != nil && sources.Shared && path.Clean(sources.Root) == dir
	})
}

// sourcesSeen returns the Python files next to the script on a machine, or nil if they were not
// collected.
func sourcesSeen(machine *facts.Node) *facts.Sources {
	if machine.Files == nil {
		return nil
	}
	return machine.Files.Sources
}

// bringNamed returns the commands that copy only the files that the launch needs to {hosts}. They
// serve for a directory that must not be copied as a whole.
func bringNamed(view checks.View) []fix.Command {
	dirs, copies := []string{view.Launch.WorkDir}, []fix.Command(nil)
	for _, named := range view.Launch.Files {
		if named.Role == facts.RoleArgument || !strings.HasPrefix(named.Path, strings.TrimSuffix(view.Launch.WorkDir, "/")+"/") {
			continue
		}
		if dir := path.Dir(named.Path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		copies = append(copies, fix.CopyTo(named.Path).As(fix.Then))
	}
	return append([]fix.Command{fix.On("mkdir -p %s", fix.List[fix.Path](" ", dirs))}, copies...)
}
