// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strings"
	"unicode"

	"preflight/internal/lazyregexp"
)

// markCommand is a command that runners of CI obey wherever a step prints it: GitHub's ##[NAME], Azure's ##vso[NAME]
// and TeamCity's ##teamcity[NAME]. A package's version could switch the rest of a log off.
//
// Source: actions/runner, commit 079cdb1, src/Runner.Common/ActionCommand.cs, TryParse; Azure Pipelines, "Logging
// commands"; TeamCity, "Service Messages".
var markCommand = lazyregexp.New(`##(\w*\[)`)

// Escape makes text from a node harmless on a terminal. Control characters and the invisible ones that reorder or
// hide text become \x1b or \u202e, and the first character of a CI runner's command becomes \x23. A line break or
// a tab becomes a blank: a caller that wants lines splits them first.
func Escape(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == unicode.ReplacementChar, unicode.IsPrint(r):
			out.WriteRune(r)
		case r == '\t', r == '\n': // a caller that means lines has split them
			out.WriteByte(' ')
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	if strings.Contains(text, "##") {
		return markCommand.ReplaceAllString(out.String(), `\x23#$1`)
	}
	return out.String()
}
