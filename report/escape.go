package report

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
)

// Escape makes text from a node harmless on a terminal: control characters,
// and the invisible ones that reorder or hide text, become \x1b or \u202e, and the first
// character of what a runner of CI obeys becomes \x23. A line break becomes a blank: it stays
// one only where the caller splits lines itself.
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

// The commands that runners of CI obey in whatever a step prints: GitHub a line that
// begins with ::NAME … ::, behind any blanks, and ##[NAME] anywhere, Azure ##vso[NAME] and
// TeamCity ##teamcity[NAME]. A package's version could switch the rest of a log off.
//
// Source: actions/runner, commit 079cdb1, src/Runner.Common/ActionCommand.cs, TryParseV2
// and TryParse; Azure Pipelines, "Logging commands"; TeamCity, "Service Messages".
var (
	lineCommand = regexp.MustCompile(`(?m)^([ \t]*):(:.*::)`)
	markCommand = regexp.MustCompile(`##(\w*\[)`)
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
func EscapeLines(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Escape(line)
	}
	return unobeyed(strings.Join(lines, "\n"))
}

// jsonGuard escapes what encoding/json leaves as it is and terminals obey: DEL
// and the C1 control characters, which stand for escape sequences; and what runners do.
// Outside of strings JSON has neither.
type jsonGuard struct{ to io.Writer }

// guardedAtOnce is how many bytes, up to the end of a line, are copied at once: a report is large.
const guardedAtOnce = 64 << 10

func (g jsonGuard) Write(text []byte) (written int, err error) {
	for err == nil && written < len(text) {
		part := text[written:]
		if len(part) > guardedAtOnce {
			if end := bytes.IndexByte(part[guardedAtOnce:], '\n'); end >= 0 {
				part = part[:guardedAtOnce+end+1]
			}
		}
		err = g.write(part)
		written += len(part)
	}
	return written, err
}

func (g jsonGuard) write(text []byte) error {
	var out strings.Builder
	for _, r := range markCommand.ReplaceAllString(string(text), `\u0023#$1`) {
		if r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	_, err := io.WriteString(g.to, out.String())
	return err
}
