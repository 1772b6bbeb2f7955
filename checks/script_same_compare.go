package checks

import (
	"fmt"
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
	aspects := []aspect{
		{sourcesAspect, sourcesOf},
		{commitAspect, commitOf},
		{dirtyAspect, dirtyOf},
	}
	for i := len(view.Launch.Files) - 1; i >= 0; i-- {
		named := view.Launch.Files[i]
		aspects = append([]aspect{{shortName(view.Launch, named.Path), func(n *facts.Node) string { return contents(at(n, named)) }}}, aspects...)
	}
	var all []comparison
	for _, a := range aspects {
		c := comparison{aspect: a}
		if view.Head != nil {
			c.Want = a.Value(view.Head)
		}
		for _, node := range nodes {
			if a.Value(node) != "" {
				c.Among = append(c.Among, node)
			}
		}
		if len(c.Among) > 0 {
			all = append(all, c)
		}
	}
	return all
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
