// SPDX-License-Identifier: Apache-2.0

package report

import (
	"io"
	"maps"
	"slices"
	"strings"

	"preflight/checks"
)

// KnownBad lists what is known to fail: each entry with when it does, what happens, what to do, and
// where that is said.
func KnownBad(w io.Writer, entries []checks.KnownBad, style Style) error {
	p := &page{style: style}
	for _, entry := range entries {
		p.line("")
		p.wrapped("", entry.ID+": "+entry.Says)
		var when []string
		for _, name := range slices.Sorted(maps.Keys(entry.When)) {
			when = append(when, name+" "+entry.When[name])
		}
		p.field("severity", string(entry.Severity))
		p.field("when", strings.Join(when, ", "))
		p.field("fixed in", entry.Fixed)
		p.field("or", entry.Cure)
		p.field("symptom", entry.WouldSee)
		p.field("said at", entry.Source)
	}
	return p.writeTo(w)
}
