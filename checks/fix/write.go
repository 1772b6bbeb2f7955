// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"strings"

	"preflight/internal/text"
)

// filled is a literal with its arguments.
type filled struct {
	literal literal
	args    []Arg
}

// writer writes code with its arguments. Quoting cannot protect an argument inside a quotation of
// the code. There the writer accepts only arguments that need no quoting; any other argument makes
// it refuse the command. A remark leaves out arguments that need quoting, because some shells run
// comments as code.
type writer struct {
	strings.Builder
	names    func(string) (Arg, bool)
	isCode   bool
	in       quotation
	remark   *writer // writes the remark that follows the code
	each     string  // replaces $host, "" to keep it
	asRoot   bool    // leaves out the words that root does not need, such as sudo
	usedSudo bool
	refused  bool
	lacks    bool // whether a name in braces has no argument
}

// quotation is the character that ends the current quotation, or 0 outside a quotation.
type quotation byte

// hereDocument is the quotation that begins with "<<" and that no character ends.
const hereDocument quotation = 0xff

const remarkMark = "   # "

// sudo lists the words that ask for root, each with its replacement if the user is root already.
var sudo = []struct{ asked, asRoot string }{{"sudo ", ""}, {"sudoedit ", "vi "}}

func (w *writer) text(t filled) {
	code, next := string(t.literal), 0
	for len(code) > 0 {
		taken := 1
		switch c := code[0]; {
		case c == '%':
			taken = w.argument(code, t.args, &next)
		case c == '{':
			taken = w.name(code)
		case !w.isCode:
			w.WriteByte(c)
		case strings.HasPrefix(code, remarkMark):
			w.remark.text(filled{literal(code[len(remarkMark):]), t.args[min(next, len(t.args)):]})
			return
		case w.each != "" && strings.HasPrefix(code, "$host"):
			w.WriteString(w.each)
			taken = len("$host")
		case c == 's' && w.isWordStart():
			taken = w.program(code)
		default:
			taken = min(w.in.read(code), len(code))
			w.WriteString(code[:taken])
		}
		code = code[taken:]
	}
}

// read updates the quotation with the next character of code, and returns the number of bytes that
// it read: 2 if the character is escaped, otherwise 1.
func (q *quotation) read(code string) (signs int) {
	c := quotation(code[0])
	switch {
	case c == '\\' && *q != '\'':
		return 2
	case strings.HasPrefix(code, "<<"):
		*q = hereDocument
	case *q == 0 && strings.IndexByte("'\"`", code[0]) >= 0:
		*q = c
	case *q == c:
		*q = 0
	}
	return 1
}

// argument writes the argument of a %s or %[2]s. For "%%" and any other text after a percent sign,
// it writes a percent sign.
func (w *writer) argument(code string, args []Arg, next *int) (taken int) {
	taken = 2
	switch {
	case strings.HasPrefix(code, "%%"):
		w.WriteByte('%')
		return taken
	case len(code) > 4 && code[1] == '[' && code[3:5] == "]s":
		*next, taken = int(code[2]-'1'), 5
	case !strings.HasPrefix(code, "%s"):
		w.WriteByte('%')
		return 1
	}
	args[*next].write(w)
	*next++
	return taken
}

// name writes the value of a name in braces. If the text is not a name in braces, it writes only
// the opening brace.
func (w *writer) name(code string) (taken int) {
	end := 1
	for end < len(code) && (code[end] >= 'a' && code[end] <= 'z' || code[end] == '_') {
		end++
	}
	if end == 1 || end == len(code) || code[end] != '}' {
		w.WriteByte('{')
		return 1
	}
	if arg, known := w.names(code[1:end]); known {
		arg.write(w)
	} else {
		w.lacks = true
		w.WriteString(code[:end+1])
	}
	return end + 1
}

// program writes a word of code, and replaces a word that root does not need.
func (w *writer) program(code string) (taken int) {
	for _, s := range sudo {
		if strings.HasPrefix(code, s.asked) {
			w.usedSudo = true
			if w.asRoot {
				w.WriteString(s.asRoot)
			} else {
				w.WriteString(s.asked)
			}
			return len(s.asked)
		}
	}
	w.WriteByte(code[0])
	return 1
}

func (w *writer) isWordStart() bool {
	before := w.String()
	return before == "" || strings.ContainsRune(" \t;&|('\"`", rune(before[len(before)-1]))
}

// word writes one word for the shell that reads the code.
func (w *writer) word(word string, isSafe bool) {
	switch {
	case isSafe && (!w.isCode || w.in == 0 || text.IsPlain(word)):
		w.WriteString(text.Quote(word))
	case w.isCode:
		w.refused = true
	default:
		w.WriteString("…")
	}
}
