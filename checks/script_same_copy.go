package checks

import (
	"maps"
	"path"
	"slices"
	"strings"

	"preflight/checks/fix"
	"preflight/facts"
)

// copies are commands that bring to nodes what differs on them from a machine,
// and a look at it where nothing is to be copied.
func (w wording) copies(nodes []*facts.Node, from *facts.Node, command func(path string) fix.Command) []fix.Command {
	const most = 8 // commands that a person still reads before typing them
	var commands []fix.Command
	for _, source := range w.sources(nodes, from) {
		commands = append(commands, command(source))
	}
	if len(commands) == 0 || len(commands) > most {
		return []fix.Command{w.look()}
	}
	return commands
}

// sources is what to copy from a machine: the one file that differs, else the
// directory of the script. Only the launching machine is believed where its
// repository begins: a node could name any directory.
func (w wording) sources(nodes []*facts.Node, from *facts.Node) []string {
	if file := w.file(); file != "" {
		if there := at(from, facts.LaunchFile{Path: file}); there == nil || there.Kind != "file" {
			return nil
		}
		return []string{file}
	}
	dir := w.scriptDir()
	last := w.deviations[len(w.deviations)-1].Name
	if (last == commitAspect || last == dirtyAspect) && from == w.view.Head {
		if root := from.Files.Repository.Root; !isShared(w.view, root) {
			return []string{root + "/"}
		}
		if first := w.deviations[0].Name; first == commitAspect || first == dirtyAspect {
			return nil // the python is the same: what differs lies anywhere in a home
		}
	}
	if !isShared(w.view, dir) {
		return []string{strings.TrimSuffix(dir, "/") + "/"}
	}
	return w.byName(nodes, from)
}

// scriptDir is where the script lies, and what it imports.
func (w wording) scriptDir() string {
	for _, named := range w.view.Launch.Files {
		if named.Role == facts.RoleScript {
			return path.Dir(named.Path)
		}
	}
	return w.view.Launch.WorkDir
}

// byName is the single files that differ on nodes, of a directory that is not to
// be copied whole. The names of python files are a machine's word: only such as
// lie right in the directory are taken.
func (w wording) byName(nodes []*facts.Node, from *facts.Node) []string {
	var files []string
	for _, named := range w.view.Launch.Files {
		differs := func(d deviation) bool { return d.Name == shortName(w.view.Launch, named.Path) }
		if file := at(from, named); slices.ContainsFunc(w.deviations, differs) && file != nil && file.Kind == "file" {
			files = append(files, named.Path)
		}
	}
	has := sourcesSeen(from)
	if has == nil || !slices.ContainsFunc(w.deviations, func(d deviation) bool { return d.Name == sourcesAspect }) {
		return files
	}
	for _, name := range slices.Sorted(maps.Keys(has.Files)) {
		file := path.Join(w.scriptDir(), name)
		lacks := func(node *facts.Node) bool {
			seen := sourcesSeen(node)
			return seen != nil && seen.Files[name] != has.Files[name]
		}
		if path.Base(name) == name && strings.HasSuffix(name, ".py") && slices.ContainsFunc(nodes, lacks) && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}
