package checks

import (
	"fmt"
	"slices"
	"strconv"

	"preflight/facts"
)

// What is compared beside the files that are named.
const (
	sourcesAspect = "python files beside it"
	commitAspect  = "commit"
	dirtyAspect   = "files changed since the commit"
)

// comparisons are what must be the same on the nodes, and on the launching
// machine where that has it.
func comparisons(view View, nodes []*facts.Node) []comparison {
	all := []comparison{among(nil, sourcesAspect, sourcesOf), among(nil, commitAspect, commitOf), among(nil, dirtyAspect, dirtyOf)}
	for _, named := range slices.Backward(view.Launch.Files) {
		contentsOf := func(n *facts.Node) string { return contents(at(n, named)) }
		all = append([]comparison{among(nil, shortName(view.Launch, named.Path), contentsOf)}, all...)
	}
	for i := range all {
		c := &all[i]
		if view.Head != nil {
			c.Want = c.Value(view.Head)
		}
		c.Among = slices.DeleteFunc(slices.Clone(nodes), func(n *facts.Node) bool { return c.Value(n) == "" })
	}
	return slices.DeleteFunc(all, func(c comparison) bool { return len(c.Among) == 0 })
}

// contents is what tells a file from another, "" where nothing was read.
func contents(file *facts.File) string {
	switch {
	case file == nil || !file.Exists || file.Problem != "":
		return ""
	case file.Kind != "file":
		return "a " + file.Kind
	case file.Digest == "":
		return fmt.Sprintf("%d bytes", file.Size)
	}
	return "sha256 " + short(file.Digest)
}

// sourcesOf is "" where not every file was read: what was is chance.
func sourcesOf(node *facts.Node) string {
	if node.Files == nil || node.Files.Sources == nil || node.Files.Sources.Problem != "" {
		return ""
	}
	return short(node.Files.Sources.Digest)
}

func commitOf(node *facts.Node) string {
	if node.Files == nil || node.Files.Repository == nil {
		return ""
	}
	return short(node.Files.Repository.Commit)
}

func dirtyOf(node *facts.Node) string {
	if node.Files == nil || node.Files.Repository == nil || node.Files.Repository.Dirty == nil {
		return ""
	}
	return strconv.Itoa(*node.Files.Repository.Dirty)
}

// short is as much of a digest as tells it from others.
func short(digest string) string { return digest[:min(len(digest), 10)] }
