// SPDX-License-Identifier: Apache-2.0

package hostfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file has the text rules of Python that differ from Go's.

// ByteOrderMark is not white space in Python, so DeepSpeed reads it as part of the first column.
const ByteOrderMark = "\ufeff"

// pySpace reports whether Python's str.isspace, which strip() and \s use, is true for a character.
// That is so for bidirectional type WS, B or S, or category Zs (CPython, Objects/unicodetype_db.h,
// Unicode 15.1). Go's unicode.IsSpace lacks the four information separators.
func pySpace(r rune) bool {
	switch {
	case r >= '\t' && r <= '\r', r >= 0x1c && r <= ' ', r == 0x85, r == 0xa0, r == 0x1680,
		r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

func pyStrip(s string) string { return strings.TrimFunc(s, pySpace) }

// pyLines splits a text as Python's text mode does. LF, CRLF and a lone CR end a line, and the last
// line may lack its line end.
func pyLines(text string) []string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// pyDigits splits off the ASCII digits at the start of s. Unlike pyDigits, Python's \d and int()
// also accept the digits of other scripts.
func pyDigits(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// pyInt converts s as Python's int(s) does, and returns Python's error. It also refuses a number
// that Go's int cannot hold, although Python would accept that number.
func pyInt(s string) (int, error) {
	digits, ok := PythonInt(s)
	if !ok {
		return 0, errors.New(pyNoNumber(s))
	}
	value, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("%s is too large a number", abridged(digits))
	}
	return value, nil
}

func pyNoNumber(s string) string {
	return "invalid literal for int() with base 10: " + PythonRepr(s)
}

// PythonInt returns the digits that int(s) reads, after a "-" if the number is negative. s may have
// white space around the number, a sign, and single underscores between digits. The number may have
// any size. ok is false if Python would raise ValueError.
func PythonInt(s string) (digits string, ok bool) {
	sign, text := "", pyStrip(s)
	if text != "" && (text[0] == '-' || text[0] == '+') {
		sign, text = strings.TrimSuffix(text[:1], "+"), text[1:]
	}
	for _, run := range strings.Split(text, "_") {
		if digits, rest := pyDigits(run); digits == "" || rest != "" {
			return "", false
		}
	}
	return sign + strings.ReplaceAll(text, "_", ""), true
}

// pyUnpack returns Python's error for unpacking n values into two variables, "" if n is 2 (CPython
// 3.6 to 3.13, ceval.c, unpack_iterable).
func pyUnpack(n int) string {
	switch {
	case n < 2:
		return fmt.Sprintf("not enough values to unpack (expected 2, got %d)", n)
	case n > 2:
		return "too many values to unpack (expected 2)"
	}
	return ""
}

// PythonRepr returns repr(s), which Python's error messages use to quote a text.
func PythonRepr(s string) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var out strings.Builder
	out.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n' || r == '\r' || r == '\t':
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	out.WriteRune(quote)
	return out.String()
}

// pyDecodeError returns the error that Python raises when it reads these bytes as UTF-8. The bytes
// must not be valid UTF-8. Positions are exact in the first 8 KiB. After that, Python counts from
// the start of the block that it reads.
func pyDecodeError(data []byte) string {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	bad, reason, length := data[at:], "invalid continuation byte", 1
	switch {
	case bad[0] < 0xc2 || bad[0] > 0xf4:
		reason = "invalid start byte"
	case !utf8.FullRune(bad):
		reason, length, at = "unexpected end of data", len(bad), 0 // Python decodes these bytes as a block of their own
	default:
		for !utf8.FullRune(bad[:length+1]) {
			length++
		}
	}
	where := fmt.Sprintf("byte 0x%02x in position %d", bad[0], at)
	if length > 1 {
		where = fmt.Sprintf("bytes in position %d-%d", at, at+length-1)
	}
	return fmt.Sprintf("UnicodeDecodeError: 'utf-8' codec can't decode %s: %s", where, reason)
}
