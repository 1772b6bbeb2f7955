// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"preflight/internal/text"
)

// lineCommand is a command of GitHub's runner: a line that begins with ::NAME … ::, after any blanks. markStart is
// the other kind of command, at the start of a text: ##[NAME]; [text.Escape] has its sources.
//
// Source: actions/runner, commit 079cdb1, src/Runner.Common/ActionCommand.cs, TryParseV2.
var (
	lineCommand = regexp.MustCompile(`(?m)^([ \t]*):(:.*::)`)
	markStart   = regexp.MustCompile(`^##\w*\[`)
)

// unobeyed is escaped text for a log, its lines as they are and none a command.
func unobeyed(text string) string { return lineCommand.ReplaceAllString(text, `$1\x3a$2`) }

// Shorten cuts text to so many characters, the last of them "…" where it was cut: behind
// a blank or a comma, so that no name is half there, unless the half of it had to go for that.
func Shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	kept := string(runes[:most-1])
	if at := strings.LastIndexAny(kept, " ,"); at+1 >= len(kept)/2 && !strings.ContainsRune(" ,", runes[most-1]) {
		kept = kept[:at+1]
	}
	return kept + "…"
}

// EscapeLines is Escape for text of several lines, which stay lines; printed to a log,
// none is obeyed there.
func EscapeLines(raw string) string {
	lines := strings.Split(strings.Trim(raw, "\n"), "\n")
	for i, line := range lines {
		lines[i] = text.Escape(line)
	}
	return unobeyed(strings.Join(lines, "\n"))
}

// jsonGuard escapes what encoding/json leaves as it is and terminals obey: DEL
// and the C1 control characters, which stand for escape sequences; and what runners do.
// Outside of strings JSON has neither. It is given whole values.
type jsonGuard struct{ to io.Writer }

func (g jsonGuard) Write(text []byte) (written int, err error) {
	for at := 0; err == nil && written < len(text); {
		at += plainUntil(text[at:])
		r, size := utf8.DecodeRune(text[at:])
		instead := ""
		switch {
		case size == 0: // the end
		case r == utf8.RuneError && size == 1: // no character
			instead = string(r)
		case r >= 0x7f && r < 0xa0, unicode.Is(unicode.Bidi_Control, r), r == '#' && markStart.Match(text[at:]):
			instead = fmt.Sprintf(`\u%04x`, r)
		default:
			at += size
			continue
		}
		if _, err = g.to.Write(text[written:at]); err == nil {
			_, err = io.WriteString(g.to, instead)
		}
		at += size
		written = at
	}
	return written, err
}

// plainUntil is where the first character is that may have to be escaped. It looks at eight
// bytes at once, because a report is large: seldom has one of them its highest bit set, or
// has it when 1 was added, as DEL has.
func plainUntil(text []byte) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	at := 0
	for ; at+8 <= len(text); at += 8 {
		word := binary.LittleEndian.Uint64(text[at:])
		marks := word ^ '#'*ones // zero where one is
		if (word|(word+ones)|(marks-ones)&^marks)&highest != 0 {
			break
		}
	}
	for at < len(text) && text[at] < 0x7f && text[at] != '#' {
		at++
	}
	return at
}
