// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseText(t *testing.T) {
	const before, after = "# a-check\n\nPasses when a is\nb.\n\n", "\n\n## Would see\n\n```text\nboom\n```\n"
	id, got, err := parseText(before + "## Checks\n\nOne\ntwo.\n\nThree:\n\n- four\n  five.\n- six.\n\n## Fix\n\nSeven." + after)
	want := Text{"a is b", []Part{{"Checks", "One two.\n\nThree:\n\n- four five.\n- six."}, {"Fix", "Seven."}}, "boom"}
	if id != "a-check" || err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v: got\n%q\nwant\n%q", id, err, got, want)
	}
	for page, complaint := range map[string]string{
		"# a-check\n": "Passes when",
		before + "## Checks\n\nOne." + after + "x":                "after the would-see block",
		before + "One." + after:                                   "before the first heading",
		before + "## Cures\n\nOne." + after:                       `"Cures"`,
		before + "## Fix\n\nOne.\n\n## Checks\n\nTwo." + after:    `"Checks"`,
		before + "## Checks\n\nOne.\n\n## Checks\n\nTwo." + after: `"Checks"`,
		before + "## Checks\n\n## Fix\n\nOne." + after:            `below the heading`,
	} {
		if _, _, err := parseText(page); err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%q: %v, not a complaint about %s", page, err, complaint)
		}
	}
}
