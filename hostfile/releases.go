// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"slices"
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
	return v.text[:v.ends[min(parts, len(v.ends))-1]]
}

// Within reports whether a release is one from since on and before until, "" for no bound.
func Within(release, since, until string) bool {
	return !Before(release, since) && (until == "" || Before(release, until))
}

// release is a version without pre-release and label.
type release struct {
	numbers []int64
	text    string // of all numbers
	ends    []int  // where each of them ends in text
}

// cores remembers what core made of a text: a fleet has few versions, and asks
// for them once a node and rule. One that has more than are remembered begins anew.
var cores = struct {
	sync.RWMutex
	of map[string]*release
}{of: map[string]*release{}}

const mostCores = 4096

// core is nil when the text is no version.
func core(text string) *release {
	cores.RLock()
	made, known := cores.of[text]
	cores.RUnlock()
	if known {
		return made
	}
	if v, err := version.NewVersion(text); err == nil {
		made = &release{numbers: v.Segments64(), text: v.Core().String()}
		for i := range len(made.text) + 1 {
			if i == len(made.text) || made.text[i] == '.' {
				made.ends = append(made.ends, i)
			}
		}
		for last := len(made.numbers) - 1; last > 0 && made.numbers[last] == 0; last-- {
			made.numbers = made.numbers[:last] // what is not written is zero
		}
	}
	cores.Lock()
	defer cores.Unlock()
	if len(cores.of) >= mostCores {
		clear(cores.of)
	}
	cores.of[text] = made
	return made
}
