package checks

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"preflight/facts"
)

// wording puts into words what differs on the same nodes.
type wording struct {
	view       View
	compared   []comparison
	deviations []deviation
}

// roleOf is what a compared thing is to the launch, "" for what is beside its files.
func roleOf(view View, name string) string {
	for _, named := range view.Launch.Files {
		if shortName(view.Launch, named.Path) == name {
			return named.Role
		}
	}
	return ""
}

// what names the files, or else what is around them, with the word that goes
// before it and its verb.
func (w wording) what() (other, what, differ string) {
	var files []string
	for _, d := range w.deviations {
		if roleOf(w.view, d.Name) != "" {
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
func (w wording) weight() (Verdict, string) {
	verdict, wouldSee := Warn, "a hang or wrong results, if the ranks run what differs"
	for _, d := range w.deviations {
		switch roleOf(w.view, d.Name) {
		case facts.RoleScript:
			return Fail, ""
		case facts.RoleConfig:
			verdict, wouldSee = Fail, "ranks that disagree on batch sizes or ZeRO stages: a hang, or tensors of unlike shape in one collective"
		case facts.RoleArgument:
			if verdict == Warn {
				wouldSee = "nothing where every node is to have its own; else ranks that train on other data than the rest"
			}
		}
	}
	return verdict, wouldSee
}

// values says one side of every deviation, but for the digest of many files.
func (w wording) values(side func(deviation) string) string {
	var words []string
	for _, d := range w.deviations {
		switch d.Name {
		case sourcesAspect:
		case dirtyAspect:
			words = append(words, side(d)+" "+d.Name)
		default:
			words = append(words, d.Name+" "+side(d))
		}
	}
	return strings.Join(words, ", ")
}

// beside is others. Where there are none, the script alone makes its directory
// differ, and only the script is spoken of.
func (w *wording) beside(odd, right *facts.Node) string {
	others := w.others(odd, right)
	if others == "" && len(w.deviations) > 1 {
		w.deviations = slices.DeleteFunc(slices.Clone(w.deviations), func(d deviation) bool { return d.Name == sourcesAspect })
	}
	return others
}

// others names the python files beside the script in which two machines differ.
func (w wording) others(odd, right *facts.Node) string {
	const told = 3
	if !slices.ContainsFunc(w.deviations, func(d deviation) bool { return d.Name == sourcesAspect }) {
		return ""
	}
	here, there := odd.Files.Sources, right.Files.Sources
	if len(here.Files) == 0 || len(there.Files) == 0 {
		return fmt.Sprintf("%d python files beside it against %d", here.Count, there.Count)
	}
	all := maps.Clone(here.Files)
	maps.Copy(all, there.Files)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return here.Files[name] == there.Files[name] || roleOf(w.view, shortName(w.view.Launch, path.Join(here.Root, name))) != ""
	})
	switch more := len(names) - told; {
	case len(names) == 0:
		return ""
	case more > 0:
		return fmt.Sprintf("%s and %d more differ", strings.Join(names[:told], ", "), more)
	}
	return "different: " + strings.Join(names, ", ")
}

// join joins what is not empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}
