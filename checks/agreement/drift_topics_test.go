// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"testing"

	"preflight/checks"
	"preflight/checks/compare"
)

// TestUnlikeCells checks that tables of different sizes are shown whole.
func TestUnlikeCells(t *testing.T) {
	for name, c := range map[string]struct{ before, after, now, then string }{
		"the same both ways":   {`[["X","NV18"],["NV18","X"]]`, `[["X","NV16"],["NV16","X"]]`, "[0][1] NV16", "[0][1] NV18"},
		"one way":              {`[["X","NV18"],["NV18","X"]]`, `[["X","NV18"],["NV16","X"]]`, "[1][0] NV16", "[1][0] NV18"},
		"a row more":           {`[["X"]]`, `[["X"],["X"]]`, `[["X"],["X"]]`, `[["X"]]`},
		"a row that is longer": {`[["X"]]`, `[["X","SYS"]]`, `[["X","SYS"]]`, `[["X"]]`},
		"no table before":      {``, `[["X"]]`, `[["X"]]`, absentWord},
		"rows of other sizes":  {`[[],["A","B"]]`, `[[],["A","C"]]`, "[1][1] C", "[1][1] B"},
	} {
		now, then := InWords(checks.Change{Fact: "nvml.topology", Before: compare.OrNull(c.before), After: compare.OrNull(c.after)}, plainValue)
		if now != c.now || then != c.then {
			t.Errorf("%s: %q, %q", name, now, then)
		}
	}
}
