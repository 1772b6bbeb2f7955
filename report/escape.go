package report

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Escape makes text from a node harmless on a terminal: control characters,
// and the invisible ones that reorder or hide text, become \x1b or \u202e. A
// line break stays one only where the caller splits lines itself.
func Escape(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == unicode.ReplacementChar, unicode.IsPrint(r):
			out.WriteRune(r)
		case r == '\t':
			out.WriteByte(' ')
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// jsonGuard escapes what encoding/json leaves as it is and terminals obey: DEL
// and the C1 control characters, which stand for escape sequences.
type jsonGuard struct{ to io.Writer }

func (g jsonGuard) Write(text []byte) (int, error) {
	var out strings.Builder
	for _, r := range string(text) {
		if r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	if _, err := io.WriteString(g.to, out.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}
