// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/fix"
	"preflight/checks/ranks"
	"preflight/facts"
)

// wording puts into words what differs on the same nodes.
type wording struct {
	view       checks.View
	compared   []compare.Comparison
	deviations []compare.Deviation
}

// fileOf is the file that is compared under a name, the zero value for what is beside the files.
func fileOf(view checks.View, name string) facts.LaunchFile {
	i := slices.IndexFunc(view.Launch.Files, func(f facts.LaunchFile) bool { return shortName(view.Launch, f.Path) == name })
	if i < 0 {
		return facts.LaunchFile{}
	}
	return view.Launch.Files[i]
}

func (w wording) differs(name string) bool {
	return slices.ContainsFunc(w.deviations, func(d compare.Deviation) bool { return d.Name == name })
}

// what names the files, or else what is around them, with the word that goes
// before it and its verb.
func (w wording) what() (other, what, differ string) {
	var files []string
	for _, d := range w.deviations {
		if fileOf(w.view, d.Name).Role != "" {
			files = append(files, d.Name)
		}
	}
	switch first := w.deviations[0].Name; {
	case files != nil:
		return "another", strings.Join(files, " and "), "differs"
	case first == sourcesAspect:
		return "other", "python files beside " + path.Base(w.view.Launch.Script), "differ"
	case first == commitAspect:
		return "another", "commit of the repository", "differs"
	}
	return "other", "uncommitted changes", "differ"
}

// weight is how bad it is, by the worst of what differs.
func (w wording) weight() (checks.Verdict, string) {
	verdict, wouldSee := checks.Warn, "a hang or wrong results, if the ranks run what differs"
	for _, d := range w.deviations {
		switch fileOf(w.view, d.Name).Role {
		case facts.RoleScript:
			if !w.sameCode(d) {
				return checks.Fail, ""
			}
			wouldSee = "nothing, as long as it is comments and blank lines alone that differ"
		case facts.RoleConfig:
			verdict, wouldSee = checks.Fail, "ranks that disagree on batch sizes or ZeRO stages: a hang, or tensors of unlike shape in one collective"
		case facts.RoleArgument:
			if verdict == checks.Warn {
				wouldSee = "nothing where every node is to have its own; else ranks that train on other data than the rest"
			}
		}
	}
	return verdict, wouldSee
}

// sameCode is whether a script differs in nothing that Python reads.
func (w wording) sameCode(d compare.Deviation) bool {
	codes := map[string]bool{}
	for _, machine := range append(slices.Clone(w.view.Nodes), w.view.Head) {
		file := ranks.FileAt(machine, fileOf(w.view, d.Name))
		if has := contents(file); has != "" && (d.Want == "" || has == d.Want || has == d.Got) {
			codes[file.Code] = true
		}
	}
	return len(codes) == 1 && !codes[""]
}

// values are both sides of every deviation, but for the digest of many files.
func (w wording) values() (got, want string) {
	var gots, wants []string
	for _, d := range w.deviations {
		switch d.Name {
		case sourcesAspect:
		case dirtyAspect:
			gots, wants = append(gots, d.Got+" "+d.Name), append(wants, d.Want+" "+d.Name)
		default:
			gots, wants = append(gots, d.Name+" "+d.Got), append(wants, d.Name+" "+d.Want)
		}
	}
	return join(gots...), join(wants...)
}

// beside is others. Where there are none, the script alone makes its directory
// differ, and only the script is spoken of.
func (w *wording) beside(odd, right *facts.Node) string {
	others := w.others(odd, right)
	if others == "" && len(w.deviations) > 1 {
		w.deviations = compare.Without(w.deviations, func(d compare.Deviation) bool { return d.Name == sourcesAspect })
	}
	return others
}

// others names the python files beside the script in which two machines differ.
func (w wording) others(odd, right *facts.Node) string {
	const most = 3 // names
	if !w.differs(sourcesAspect) {
		return ""
	}
	here, there := odd.Files.Sources, right.Files.Sources
	if len(here.Files) == 0 || len(there.Files) == 0 {
		return fmt.Sprintf("%d python files beside it against %d", here.Count, there.Count)
	}
	all := maps.Clone(here.Files)
	maps.Copy(all, there.Files)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return here.Files[name] == there.Files[name] || fileOf(w.view, shortName(w.view.Launch, path.Join(here.Root, name))).Role != ""
	})
	switch more := len(names) - most; {
	case len(names) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("%s and %d more differ", strings.Join(names[:most], ", "), more)
	}
	return "different: " + strings.Join(names, ", ")
}

// join joins what is not empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// isRight is whether a machine has what is wanted in everything that differs.
func (w wording) isRight(machine *facts.Node) bool {
	for _, d := range w.deviations {
		i := slices.IndexFunc(w.compared, func(c compare.Comparison) bool { return c.Name == d.Name })
		if value := w.compared[i].Value(machine); value == "" || d.Want != "" && value != d.Want {
			return false
		}
	}
	return true
}

// rightOne is a machine to copy from, the launching machine if it will do, nil
// where none is right in everything.
func (w wording) rightOne(nodes []*facts.Node) *facts.Node {
	if w.view.Head != nil && w.isRight(w.view.Head) {
		return w.view.Head
	}
	if i := slices.IndexFunc(nodes, w.isRight); i >= 0 {
		return nodes[i]
	}
	return nil
}

// file is the path of the one thing that differs, "" where that is no file, or
// more than one.
func (w wording) file() string {
	if len(w.deviations) > 1 {
		return ""
	}
	return fileOf(w.view, w.deviations[0].Name).Path
}

// look shows what differs, where nobody knows which is right.
func (w wording) look() fix.Command {
	dir := fix.Path(w.view.Launch.WorkDir)
	switch first := w.deviations[0].Name; {
	case w.file() != "":
		return fix.On("sha256sum %s", fix.Path(w.file()))
	case first == commitAspect || first == dirtyAspect:
		return fix.On("git -C %s status", dir)
	}
	return fix.On("ls -l %s", dir)
}

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
		if there := ranks.FileAt(from, facts.LaunchFile{Path: file}); there == nil || there.Kind != "file" {
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
	for _, d := range w.deviations {
		if file := ranks.FileAt(from, fileOf(w.view, d.Name)); file != nil && file.Kind == "file" {
			files = append(files, file.Path)
		}
	}
	has := sourcesSeen(from)
	if has == nil || !w.differs(sourcesAspect) {
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
