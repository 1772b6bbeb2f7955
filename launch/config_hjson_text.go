package launch

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

var hjsonEscapes = map[rune]rune{'"': '"', '\'': '\'', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (r *hjsonReader) quoted() string {
	begin, quote := r.at, r.peek(0)
	var made strings.Builder
	for r.at++; ; r.at++ {
		c := r.peek(0)
		switch {
		case r.at >= len(r.text):
			r.fail(begin, "Unterminated string starting at")
		case c == quote:
			r.at++
			return made.String()
		case c < ' ':
			r.at++
			r.fail(r.at, fmt.Sprintf("Invalid control character %s at", pythonRepr(string(r.text[r.at:min(r.at+1, len(r.text))]))))
		case c != '\\':
			made.WriteRune(c)
			continue
		}
		r.at++
		c = r.peek(0)
		if plain, known := hjsonEscapes[c]; known {
			made.WriteRune(plain)
			continue
		}
		switch {
		case r.at >= len(r.text):
			r.fail(begin, "Unterminated string starting at")
		case c != 'u':
			r.fail(r.at, `Invalid \X escape sequence `+pythonRepr(string(c)))
		}
		unit := r.hex(1)
		if low := rune(0); utf16.IsSurrogate(unit) && r.peek(5) == '\\' && r.peek(6) == 'u' {
			low = r.hex(7)
			if both := utf16.DecodeRune(unit, low); both != '\ufffd' {
				unit = both
				r.at += 6
			}
		}
		made.WriteRune(unit)
		r.at += 4
	}
}

// hex is the four digits of an escape some way ahead.
func (r *hjsonReader) hex(ahead int) rune {
	digits := string(r.text[min(r.at+ahead, len(r.text)):min(r.at+ahead+4, len(r.text))])
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != 4 {
		r.fail(r.at-1, `Invalid \uXXXX escape sequence`)
	}
	return rune(n)
}

// lines is a text between triple quotes, its indent taken away: the column of the
// first quote. On the first line Python goes on counting from the end of the file.
func (r *hjsonReader) lines() string {
	indent := 0
	for before := r.at - 1; ; before-- {
		if before < -len(r.text) {
			panic(hjsonError("IndexError: string index out of range"))
		}
		if r.text[(before+len(r.text))%len(r.text)] == '\n' {
			break
		}
		indent++
	}
	blanks := func(most int) {
		for ; most != 0 && (r.peek(0) == ' ' || r.peek(0) == '\t'); most-- {
			r.at++
		}
	}
	r.at += 3
	if blanks(-1); r.peek(0) == '\n' {
		r.at++
		blanks(indent)
	}
	var made strings.Builder
	for {
		switch c := r.peek(0); {
		case r.at >= len(r.text):
			r.fail(r.at, "Bad multiline string")
		case c == '\'' && r.peek(1) == '\'' && r.peek(2) == '\'':
			r.at += 3
			return strings.TrimSuffix(made.String(), "\n")
		default:
			made.WriteRune(c)
			r.at++
			if c == '\n' {
				blanks(indent)
			}
		}
	}
}
