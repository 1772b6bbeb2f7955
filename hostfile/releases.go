// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-version"
)

// Before reports whether a version is older than a release. Pre-releases and
// local labels count as the release they lead to; a text that is not a version is
// older than nothing, and nothing is older than it: nodes send what they like.
func Before(text, release string) bool {
	v, r := core(text), core(release)
	return v != nil && r != nil && slices.Compare(v.numbers, r.numbers) < 0
}

// Release is the first parts numbers of a version ("2.5.1+cu124" → "2.5" for
// two), or the whole text where it is not a version.
func Release(text string, parts int) string {
	v := core(text)
	if v == nil {
		return text
	}
	numbers := strings.Split(v.text, ".")
	return strings.Join(numbers[:min(parts, len(numbers))], ".")
}

// Within reports whether a release is one from since on and before until, "" for no bound.
func Within(release, since, until string) bool {
	return !Before(release, since) && (until == "" || Before(release, until))
}

// release is a version without pre-release and label.
type release struct {
	numbers []int64
	text    string // of all numbers
}

// cores remembers what core made of a text: a fleet has few versions, and asks for them once a
// node and rule.
var cores sync.Map

// core is nil when the text is no version.
func core(text string) *release {
	if made, known := cores.Load(text); known {
		return made.(*release)
	}
	var made *release
	if v, err := version.NewVersion(text); err == nil {
		made = &release{numbers: v.Segments64(), text: v.Core().String()}
		for last := len(made.numbers) - 1; last > 0 && made.numbers[last] == 0; last-- {
			made.numbers = made.numbers[:last] // what is not written is zero
		}
	}
	cores.Store(text, made)
	return made
}
