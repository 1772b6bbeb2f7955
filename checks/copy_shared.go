package checks

import (
	"path"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// isShared is whether a directory is nobody's project but a home, a directory of
// temporary files, or one that holds homes. None is ever copied whole: keys,
// start-up files and caches would replace another machine's.
func isShared(view View, dir string) bool {
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

// sourcesSeen is the python beside the script of a machine, nil where nobody looked.
func sourcesSeen(machine *facts.Node) *facts.Sources {
	if machine.Files == nil {
		return nil
	}
	return machine.Files.Sources
}

// bringNamed brings to {hosts} what the launch cannot start without, of a
// directory that is not to be copied whole.
func bringNamed(view View) []fix.Command {
	dirs, copies := []string{view.Launch.WorkDir}, []fix.Command(nil)
	for _, named := range view.Launch.Files {
		if named.Role == facts.RoleArgument || !strings.HasPrefix(named.Path, strings.TrimSuffix(view.Launch.WorkDir, "/")+"/") {
			continue
		}
		if dir := path.Dir(named.Path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		copies = append(copies, fix.CopyTo(named.Path))
	}
	return append([]fix.Command{fix.On("mkdir -p %s", fix.List[fix.Path](" ", dirs))}, copies...)
}
