package checks

import (
	"slices"

	"preflight/checks/fix"
	"preflight/facts"
)

// isRight is whether a machine has what is wanted in everything that differs.
func (w wording) isRight(machine *facts.Node) bool {
	for _, d := range w.deviations {
		i := slices.IndexFunc(w.compared, func(c comparison) bool { return c.Name == d.Name })
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
	for _, node := range nodes {
		if w.isRight(node) {
			return node
		}
	}
	return nil
}

// file is the path of the one thing that differs, "" where that is no file, or
// more than one.
func (w wording) file() string {
	for _, named := range w.view.Launch.Files {
		if len(w.deviations) == 1 && shortName(w.view.Launch, named.Path) == w.deviations[0].Name {
			return named.Path
		}
	}
	return ""
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
