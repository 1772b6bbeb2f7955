package hostfile

import (
	"sync"

	"github.com/hashicorp/go-version"
)

// Before reports whether a version is older than a release. Pre-releases and
// local labels count as the release they lead to; a text that is not a version is
// older than nothing, and nothing is older than it: nodes send what they like.
func Before(text, release string) bool {
	v, r := core(text), core(release)
	return v != nil && r != nil && v.LessThan(r)
}

// Within reports whether a release is one from since on and before until, "" for no bound.
func Within(release, since, until string) bool {
	return !Before(release, since) && (until == "" || Before(release, until))
}

// cores remembers what core made of a text: a fleet has few versions, and asks
// for them once a node and rule.
var cores sync.Map

// core is a version without pre-release and label, nil when the text is none.
func core(text string) *version.Version {
	if known, ok := cores.Load(text); ok {
		return known.(*version.Version)
	}
	var made *version.Version
	if v, err := version.NewVersion(text); err == nil {
		made = v.Core()
	}
	cores.Store(text, made)
	return made
}
