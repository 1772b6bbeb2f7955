// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-version"
)

// Before reports whether a version is older than a release. A pre-release or a version with a local
// label counts as the release itself. Nodes can send any text, so Before returns false if one of
// the two texts is not a version.
func Before(text, release string) bool {
	v, r := core(text), core(release)
	return v != nil && r != nil && slices.Compare(v.numbers, r.numbers) < 0
}

// Release returns the first parts numbers of a version: "2.5" of "2.5.1+cu124" if parts is 2. It
// returns the whole text if that is not a version.
func Release(text string, parts int) string {
	v := core(text)
	if v == nil {
		return text
	}
	numbers := strings.Split(v.text, ".")
	return strings.Join(numbers[:min(parts, len(numbers))], ".")
}

// Within reports whether a release is not older than since and is older than until. "" means no
// limit.
func Within(release, since, until string) bool {
	return !Before(release, since) && (until == "" || Before(release, until))
}

// release is a version without pre-release and local label.
type release struct {
	numbers []int64
	text    string // all numbers, including trailing zeros
}

// cores caches the results of core by text. Nodes have few different versions, but every rule asks
// for the version of every node.
var cores sync.Map

// core parses a version. It returns nil if the text is not a version.
func core(text string) *release {
	if made, known := cores.Load(text); known {
		return made.(*release)
	}
	var made *release
	if v, err := version.NewVersion(text); err == nil {
		made = &release{numbers: v.Segments64(), text: v.Core().String()}
		for last := len(made.numbers) - 1; last > 0 && made.numbers[last] == 0; last-- {
			made.numbers = made.numbers[:last] // a missing number counts as zero
		}
	}
	cores.Store(text, made)
	return made
}
