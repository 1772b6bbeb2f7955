package fix

import "strings"

// write puts arguments where code names them; names without one stay open. Where code has
// opened a quotation, which no quoting of ours gets out of, an argument must be plain.
// Refused is an argument that cannot be written. In a remark it is left out instead: a
// shell may have been told that there are none.
func write(text string, lookUp func(name string) (Arg, bool), isCode bool) (written string, refused bool) {
	if !strings.Contains(text, "\x01") {
		return text, false
	}
	var out strings.Builder
	var in quotation
	for {
		before, rest, found := strings.Cut(text, "\x01")
		out.WriteString(before)
		in.read(before)
		if !found {
			return out.String(), refused
		}
		name, after, _ := strings.Cut(rest, "\x02")
		text = after
		arg, known := lookUp(name)
		switch {
		case !known:
			out.WriteString(open(name))
		case arg.isSafe() && (!isCode || in == 0 || isBare(arg)):
			out.WriteString(arg.words())
		case isCode:
			refused = true
		default:
			out.WriteString("…")
		}
	}
}

// isBare is whether an argument stands for itself in any quotation.
func isBare(arg Arg) bool {
	switch arg := arg.(type) {
	case Names, Hosts:
		return true
	case part:
		return arg.bare
	}
	return IsPlain(arg.words())
}

// quotation is the sign that will end what a shell takes as quoted, 0 outside of any.
type quotation byte

const hereDocument quotation = 0xff // which no sign ends

func (q *quotation) read(code string) {
	if strings.Contains(code, "<<") {
		*q = hereDocument
	}
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '\\' && *q != '\'':
			i++
		case *q == 0 && strings.IndexByte("'\"`", c) >= 0:
			*q = quotation(c)
		case quotation(c) == *q:
			*q = 0
		}
	}
}
