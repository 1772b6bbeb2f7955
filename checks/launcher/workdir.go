// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
	"preflight/launch"
	"preflight/launch/dsconfig"
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
		f := checks.Finding{Verdict: workDirVerdict(p), Nodes: []string{node.Name}, Got: dir.Problem, WouldSee: workDirError(p, node, message),
			Covers: []string{"files", "disk.places.workdir", "python.sys_path"}}
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

var OffloadPath = checks.Check{
	ID:       "offload-path",
	Severity: checks.Error,
	Needs:    []facts.Section{facts.SectionDisk},
	Volatile: true,
	Run:      judgeOffloadPath,
}

func judgeOffloadPath(view checks.View) []checks.Finding {
	if view.Launch.Config == nil || !slices.ContainsFunc(view.Launch.Config.Offload, func(o dsconfig.Offload) bool { return o.Device == "nvme" }) {
		return checks.Skipped("the launch offloads nothing to NVMe")
	}
	var findings []checks.Finding
	for _, node := range view.Nodes {
		met := map[string]bool{} // several kinds may use one directory
		for _, place := range node.Disk.Places {
			if strings.HasPrefix(place.Role, "offload-") && !met[place.Path] {
				met[place.Path] = true
				findings = append(findings, judgeOffload(view, node, place)...)
			}
		}
		if len(met) == 0 { // the path depends on the working directory of a rank
			findings = append(findings, checks.UnknownFor(node, "disk: preflight did not check the offload directory"))
		}
	}
	return findings
}

func judgeOffload(view checks.View, node *facts.Node, place facts.Place) []checks.Finding {
	f := checks.Finding{Nodes: []string{node.Name}, Got: fmt.Sprintf("%s, %s on %s", place.Path, place.FSType, place.Source)}
	at := fix.On("df -hT %s; ls -ld %[1]s", fix.Path(place.Path)).As(fix.Look)
	switch {
	case place.Problem != "":
		return []checks.Finding{checks.UnknownFor(node, fmt.Sprintf("disk: %s: %s", place.Path, place.Problem))}
	case place.ReadOnly || !place.Writable:
		f.Summary = "cannot write to the offload directory " + place.Path
		if !place.Exists {
			f.Summary += ", which does not exist"
		}
		f.Want = "a directory that the user of the launch can write to"
		f.WouldSee = fmt.Sprintf("PermissionError: [Errno 13] Permission denied: '%s/zero_stage_3'", place.Path)
		f.Remedy = []fix.Command{fix.On("sudo mkdir -p %s && sudo chown $(id -u) %[1]s", fix.Path(place.Path))}
	case place.Remote():
		f.Verdict = checks.Warn
		f.Summary = "the offload directory is on a network file system: " + place.Path
		f.Want = "a local NVMe disk of the node"
		f.WouldSee = "steps that take many times as long; in a shared directory, ranks of several nodes may write one file"
		f.Remedy = []fix.Command{at}
	case place.Free < view.Policy.DiskFree:
		free, least := compare.Apart(place.Free, view.Policy.DiskFree)
		f.Summary = "the offload directory is nearly full: " + place.Path
		f.Got = fmt.Sprintf("%s free of %s (%s)", free, humanize.IBytes(uint64(place.Total)), place.Source)
		f.Want = "at least " + least
		f.WouldSee = "OSError: [Errno 28] No space left on device, or a failed assertion in swap_out"
		f.Remedy = []fix.Command{at}
	case !existsSomewhere(view, place) || place.Exists:
		return nil
	default:
		f.Verdict = checks.Warn
		f.Summary = place.Path + " is missing here but exists on other nodes: is a disk not mounted?"
		f.WouldSee = "offloaded states go to the root disk, which may be slow or small"
		f.Remedy = []fix.Command{fix.On("lsblk; findmnt -T %s", fix.Path(place.Path)).As(fix.Look)}
	}
	return []checks.Finding{f}
}

// existsSomewhere reports whether the directory exists on at least one node.
func existsSomewhere(v checks.View, place facts.Place) bool {
	return slices.ContainsFunc(v.Nodes, func(node *facts.Node) bool {
		return slices.ContainsFunc(node.Disk.Places, func(p facts.Place) bool { return p.Path == place.Path && p.Exists })
	})
}
