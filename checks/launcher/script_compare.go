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
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

// Names of the properties that are compared in addition to the files of the command.
const (
	sourcesAspect = "Python files next to the script"
	commitAspect  = "commit"
	dirtyAspect   = "uncommitted changes"
)

// comparisons returns the properties that must be the same on all nodes. They must also be the same
// on the launching machine if it has them.
func comparisons(view checks.View, nodes []*facts.Node) []compare.Comparison {
	var all []compare.Comparison
	for _, named := range view.Launch.Files {
		if named.Role == facts.RoleProgram { // pip writes a different program on each node
			continue
		}
		contentsOf := func(n *facts.Node) string { return contents(ranks.FileAt(n, named)) }
		all = append(all, compare.Among(nil, shortName(view.Launch, named.Path), contentsOf))
	}
	all = append(all, compare.Among(nil, sourcesAspect, sourcesOf), compare.Among(nil, commitAspect, commitOf), compare.Among(nil, dirtyAspect, dirtyOf))
	for i := range all {
		c := &all[i]
		if view.Head != nil {
			c.Want = c.Value(view.Head)
		}
		c.Among = compare.Without(nodes, func(n *facts.Node) bool { return c.Value(n) == "" })
	}
	return slices.DeleteFunc(all, func(c compare.Comparison) bool { return len(c.Among) == 0 })
}

// contents returns a value that is different for files with different contents. It is "" if the
// file was not read.
func contents(file *facts.File) string {
	switch {
	case file == nil || !file.Exists || file.Problem != "":
		return ""
	case file.Kind != "file":
		return "a " + file.Kind
	case file.Digest == "":
		return fmt.Sprintf("%d bytes", file.Size)
	}
	return digested(file.Digest)
}

// short returns the beginning of a digest. It is long enough to distinguish digests.
func short(digest string) string { return digest[:min(len(digest), 10)] }

// absent stands for a file that a machine does not have.
const absent = "absent"

// digested returns the digest of a file in the form that a report shows.
func digested(digest string) string {
	if digest == "" {
		return absent
	}
	return "sha256 " + short(digest)
}

// sourcesOf returns the digest of all Python files next to the script on a node. It is "" if some
// of the files were not read.
func sourcesOf(node *facts.Node) string {
	if seen := sourcesSeen(node); seen != nil && seen.Problem == "" && seen.Digest != "" {
		return digested(seen.Digest)
	}
	return ""
}

// repositoryOf returns the git repository that contains the script, or the zero value if preflight
// saw none.
func repositoryOf(node *facts.Node) facts.Repository {
	if node.Files == nil || node.Files.Repository == nil {
		return facts.Repository{}
	}
	return *node.Files.Repository
}

func commitOf(node *facts.Node) string { return short(repositoryOf(node).Commit) }

func dirtyOf(node *facts.Node) string {
	if changed := repositoryOf(node).Dirty; changed != nil {
		return fmt.Sprintf("in %d files", *changed)
	}
	return ""
}

// unlike returns findings for nodes that differ from the launching machine, or from most nodes. If
// the script, the files next to it and the commit differ on the same nodes, that is one cause.
func unlike(view checks.View, nodes []*facts.Node, compared []compare.Comparison) []checks.Finding {
	var findings []checks.Finding
	for _, found := range compare.Differences(compared...) {
		d := difference{view: view, deviations: found.Deviations}
		var candidates []*facts.Node
		if view.Head != nil {
			candidates = append(candidates, view.Head)
		}
		if !found.Split {
			candidates = append(candidates, nodes...)
		}
		if i := slices.IndexFunc(candidates, func(n *facts.Node) bool { return isRight(n, compared, found.Deviations) }); i >= 0 {
			d.right = candidates[i]
		}
		var f checks.Finding
		if found.Split {
			f = d.finding("nodes have different versions, none with a majority", "", found.Nodes[0])
			f.Got, f.Want = found.Finding("").Got, "the same version on every node"
			f.Remedy = append(f.Remedy[:1], d.eitherWay(found, nodes)...)
		} else {
			whose := "most nodes"
			if d.right != nil && d.right == view.Head {
				whose = "the launching machine"
			}
			d.tellSources(nodes[slices.IndexFunc(nodes, func(n *facts.Node) bool { return n.Name == found.Nodes[0] })])
			f = d.finding("differs from "+whose, whose, found.Nodes[0])
		}
		f.Nodes = found.Nodes
		f.Verdict, f.WouldSee = d.weight()
		findings = append(findings, f)
	}
	return append(findings, unlikeHead(view, compared)...)
}

// eitherWay returns the commands for a difference without a majority. There is one alternative for
// each version that may be right: those of the nodes, and that of the launching machine.
func (d difference) eitherWay(found compare.Difference, nodes []*facts.Node) (commands []fix.Command) {
	if d.right != nil {
		for _, command := range d.copies() {
			commands = append(commands, command.Remark("if the launching machine is right").As(fix.Or))
		}
	}
	groups := found.Deviations[0].Groups
	if len(groups) != 2 || slices.ContainsFunc(nodes, func(n *facts.Node) bool { return n.SSH == nil || n.SSH.Inside != nil || n.SSH.Carrier != "" }) {
		return commands
	}
	for right, group := range groups {
		source := group.Nodes[0]
		d.right = nodes[slices.IndexFunc(nodes, func(n *facts.Node) bool { return n.Name == source })]
		targets := fix.List[fix.Host](" ", text.Map(groups[1-right].Nodes, hostfile.Bare))
		for _, path := range d.toCopy() {
			copied := fix.On("for host in %s; do rsync -a %s $host:%[2]s; done", targets, fix.Path(path))
			if len(groups[1-right].Nodes) == 1 {
				copied = fix.On("rsync -a %[2]s %[1]s:%[2]s", targets, fix.Path(path))
			}
			commands = append(commands, copied.At(source).Remark("if %s is right", fix.Text(source)).As(fix.Or))
		}
	}
	return commands
}

// isRight reports whether a machine has the wanted version of every property that differs.
func isRight(machine *facts.Node, compared []compare.Comparison, deviations []compare.Deviation) bool {
	for _, d := range deviations {
		i := slices.IndexFunc(compared, func(c compare.Comparison) bool { return c.Name == d.Name })
		if value := compared[i].Value(machine); value == "" || d.Want != "" && value != d.Want {
			return false
		}
	}
	return true
}

// unlikeHead warns if all nodes have the same version but the launching machine has another
// version.
func unlikeHead(view checks.View, compared []compare.Comparison) []checks.Finding {
	d := difference{view: view, right: view.Head}
	var odd *facts.Node
	for _, c := range compared {
		groups := compare.GroupBy(c.Among, c.Value)
		if len(groups) > 1 || c.Want == "" || groups[0].Value == c.Want || c.Name == dirtyAspect || d.named(c.Name).Role == facts.RoleArgument {
			continue
		}
		d.deviations = append(d.deviations, compare.Deviation{Name: c.Name, Got: groups[0].Value, Want: c.Want})
		if odd == nil || c.Name == sourcesAspect {
			odd = c.Among[0]
		}
	}
	if d.deviations == nil {
		return nil
	}
	d.tellSources(odd)
	f := d.finding("all nodes differ from the launching machine", "the launching machine", odd.Name)
	for i := range f.Remedy[1:] { // the finding belongs to the launching machine
		f.Remedy[i+1] = f.Remedy[i+1].At(launch.HostNames(view.Launch.Hosts)...)
	}
	f.Verdict, f.Nodes = checks.Warn, []string{view.Head.Name}
	f.WouldSee = "training with the version of the nodes: your changes here have no effect"
	return []checks.Finding{f}
}

// difference holds the properties that differ on the same nodes.
type difference struct {
	view       checks.View
	deviations []compare.Deviation
	right      *facts.Node // a machine with the wanted version of every property, nil for none
}

// named returns the file of the launch that is compared under a name, or the zero value if the name
// is not that of a file.
func (d difference) named(name string) facts.LaunchFile {
	i := slices.IndexFunc(d.view.Launch.Files, func(f facts.LaunchFile) bool { return shortName(d.view.Launch, f.Path) == name })
	if i < 0 {
		return facts.LaunchFile{}
	}
	return d.view.Launch.Files[i]
}

// weight returns the verdict and the consequence of the gravest difference.
func (d difference) weight() (checks.Verdict, string) {
	verdict, wouldSee := checks.Warn, "a hang or wrong results, if the ranks run the different code"
	for _, one := range d.deviations {
		if one.Got == absent && strings.HasSuffix(one.Name, ".py") {
			wouldSee = "ModuleNotFoundError on the nodes that lack the file, if the script imports it"
		}
		switch d.named(one.Name).Role {
		case facts.RoleScript:
			if !d.sameCode(one) {
				return checks.Fail, ""
			}
			wouldSee = "nothing, as long as only comments and blank lines differ"
		case facts.RoleConfig:
			verdict, wouldSee = checks.Fail, "ranks that disagree on batch sizes or ZeRO stages: a hang, or tensors of different shapes in one collective"
		case facts.RoleArgument:
			if verdict == checks.Warn {
				wouldSee = "nothing if each node should have its own; otherwise ranks that train on other data than the rest"
			}
		}
	}
	return verdict, wouldSee
}

// sameCode reports whether the versions of a script differ only in text that Python ignores.
func (d difference) sameCode(script compare.Deviation) bool {
	codes := map[string]bool{}
	for _, machine := range append(slices.Clone(d.view.Nodes), d.view.Head) {
		file := ranks.FileAt(machine, d.named(script.Name))
		if has := contents(file); has != "" && (script.Want == "" || has == script.Want || has == script.Got) {
			codes[file.Code] = true
		}
	}
	return len(codes) == 1 && !codes[""]
}

// tellSources replaces the digest of all Python files by the names of the files that differ, if
// both machines list their files. It leaves out files that the launch names, because those are
// listed already.
func (d *difference) tellSources(odd *facts.Node) {
	at := slices.IndexFunc(d.deviations, func(one compare.Deviation) bool { return one.Name == sourcesAspect })
	if at < 0 || d.right == nil {
		return
	}
	got, want := odd.Files.Sources.Files, d.right.Files.Sources.Files
	if len(got) == 0 || len(want) == 0 {
		return
	}
	all := maps.Clone(got)
	maps.Copy(all, want)
	var files []compare.Deviation
	for _, file := range slices.Sorted(maps.Keys(all)) {
		name := shortName(d.view.Launch, path.Join(d.scriptDir(), file))
		if got[file] != want[file] && d.named(name).Role == "" {
			files = append(files, compare.Deviation{Name: name, Got: digested(got[file]), Want: digested(want[file])})
		}
	}
	if len(files) > 0 || len(d.deviations) > 1 {
		d.deviations = slices.Replace(slices.Clone(d.deviations), at, at+1, files...)
	}
}

// finding returns the finding with both versions. Its remedy has a command that shows the
// difference on a node, and the commands that copy the right version.
func (d difference) finding(says, whose, odd string) checks.Finding {
	const most = 3 // the limit is necessary because there may be hundreds of files
	var all, got, want []string
	for i, one := range d.deviations {
		if i == most {
			more := fmt.Sprintf("%d more", len(d.deviations)-most)
			all, got, want = append(all, more), append(got, more), append(want, more)
			break
		}
		all, got, want = append(all, one.Name), append(got, one.Name+" "+one.Got), append(want, one.Name+" "+one.Want)
	}
	return checks.Finding{
		Summary: says + ": " + strings.Join(all, ", "),
		Got:     strings.Join(got, ", "),
		Want:    strings.Join(want, ", ") + ", as on " + whose,
		Remedy:  append([]fix.Command{d.look(odd)}, d.copies()...),
		Covers: append(text.Map(d.deviations, func(one compare.Deviation) string { return "files.files." + d.path(one.Name) }),
			"files.sources"),
	}
}

// path returns the path of the file or directory that is compared under a name.
func (d difference) path(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(d.view.Launch.WorkDir, name)
}

// look returns the command that shows the first difference on the node odd.
func (d difference) look(odd string) fix.Command {
	name, dir := d.deviations[0].Name, fix.Path(d.scriptDir())
	file := fix.Path(d.path(name))
	look := fix.On("sha256sum %s", file)
	switch {
	case name == commitAspect || name == dirtyAspect:
		look = fix.On("git -C %s status", dir)
	case name == sourcesAspect || d.deviations[0].Got == absent:
		look = fix.On("ls -l %s", dir)
	case d.right != nil && d.right == d.view.Head && d.named(name).Role != facts.RoleArgument:
		look = fix.On("cat %s   # add | diff - %s to see the difference", file, file)
	}
	return look.At(odd).As(fix.Look)
}

// copies returns the commands that copy the differing files from the machine with the right
// version.
func (d difference) copies() []fix.Command {
	copied := fix.CopyTo
	if d.right != d.view.Head {
		copied = func(path string) fix.Command { return fix.CopyFrom(d.right.Name, path) }
	}
	return text.Map(d.toCopy(), copied)
}

// toCopy returns the paths to copy from the machine with the right version, nil if there is no such
// machine. It names a few files one by one. If there are more, it copies the directory of the script,
// but never a home directory. The names of Python files come from a machine and are not trusted, so
// only files below that directory are copied.
func (d difference) toCopy() (paths []string) {
	const most = 8 // the number of commands that a person still reads before pasting them
	if d.right == nil {
		return nil
	}
	dir, whole := d.scriptDir(), false
	for _, one := range d.deviations {
		named, file := d.named(one.Name), d.path(one.Name)
		isFile := named.Role != "" && ranks.FileAt(d.right, named).Kind == "file"
		isBeside := named.Role == "" && one.Want != "absent" && strings.HasPrefix(file, dir+"/") && strings.HasSuffix(file, ".py")
		if isFile || isBeside {
			paths = append(paths, file)
		}
		whole = whole || one.Name == sourcesAspect || isBeside && path.Dir(file) != dir // a node may lack that directory
	}
	switch {
	case (whole || len(paths) > most) && !isShared(d.view, dir):
		return []string{dir + "/"}
	case len(paths) > most:
		return nil
	}
	return paths
}

// scriptDir returns the directory of the script and of the files that it imports.
func (d difference) scriptDir() string {
	for _, named := range d.view.Launch.Files {
		if named.Role == facts.RoleScript {
			return path.Dir(named.Path)
		}
	}
	return d.view.Launch.WorkDir
}
