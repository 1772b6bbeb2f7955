package fix

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Arg is a value among code. Its type says what it is, and so what of it is safe.
type Arg interface {
	// words is the argument as a POSIX shell takes it.
	words() string
	// isSafe is whether there is such text at all.
	isSafe() bool
}

type (
	// Word is any word, an option too: a part of the user's own command line, a value.
	Word string
	// Path is a file or directory.
	Path string
	// Package is what pip or a distribution's tool installs, with a version or without.
	Package string
	// Host is the name or address of a machine, with an account before it or without.
	Host string
	// Account is a user's name.
	Account string
	// Name is what the kernel or a driver calls something: letters, digits and a few signs,
	// which no shell ever takes for more. Anything else is no such name.
	Name string
	// Variable is the name of an environment variable.
	Variable string
	// Setting is one of an environment, and what it is set to.
	Setting struct{ Variable, Value string }
	// Number is a count, a size, a port.
	Number int64
	// Words are several, and so are the others in the plural.
	Words    []string
	Paths    []string
	Names    []string
	Hosts    []string
	Packages []string
	// Text is prose in a remark.
	Text  string
	Texts []string
)

// Code is code among code: a part that is written or left out, or one of two.
func Code(code literal, args ...Arg) Arg {
	text, _ := marked(string(code), true)
	written, refused := write(text, positional(args), true)
	return part{written, len(args) == 0 || !strings.ContainsAny(written, "'\"`"), refused}
}

// Join is code from several parts, with code between them.
func Join(separator literal, parts ...Arg) Arg {
	whole := part{bare: true}
	for i, p := range parts {
		if i > 0 {
			whole.code += string(separator)
		}
		whole.code += p.words()
		whole.bare = whole.bare && isBare(p)
		whole.refused = whole.refused || !p.isSafe()
	}
	return whole
}

type part struct {
	code    string
	bare    bool // no quotation of its own: it may stand in one
	refused bool
}

func (w Word) words() string     { return Quote(string(w)) }
func (p Path) words() string     { return Quote(string(p)) }
func (p Package) words() string  { return Quote(string(p)) }
func (h Host) words() string     { return string(h) }
func (a Account) words() string  { return Quote(string(a)) }
func (n Name) words() string     { return string(n) }
func (v Variable) words() string { return string(v) }
func (s Setting) words() string  { return Quote(s.Variable + "=" + s.Value) }
func (n Number) words() string   { return strconv.FormatInt(int64(n), 10) }
func (w Words) words() string    { return quoteAll(w) }
func (p Paths) words() string    { return quoteAll(p) }
func (n Names) words() string    { return strings.Join(n, " ") }
func (p Packages) words() string { return quoteAll(p) }
func (h Hosts) words() string    { return strings.Join(h, " ") }
func (p part) words() string     { return p.code }

func (t Text) words() string {
	if prose.MatchString(string(t)) {
		return string(t)
	}
	return Quote(printable(string(t)))
}

func (t Texts) words() string {
	told := make([]string, len(t))
	for i, text := range t {
		told[i] = Text(text).words()
	}
	return strings.Join(told, ", ")
}

func (w Word) isSafe() bool     { return isPrintable(string(w)) }
func (p Path) isSafe() bool     { return isOperand(string(p)) }
func (p Package) isSafe() bool  { return isOperand(string(p)) }
func (a Account) isSafe() bool  { return isOperand(string(a)) }
func (n Name) isSafe() bool     { return isName(string(n)) }
func (v Variable) isSafe() bool { return variable.MatchString(string(v)) }
func (s Setting) isSafe() bool  { return Variable(s.Variable).isSafe() && isPrintable(s.Value) }
func (n Number) isSafe() bool   { return true }
func (w Words) isSafe() bool    { return all(w, isPrintable) }
func (p Paths) isSafe() bool    { return all(p, isOperand) }
func (p Packages) isSafe() bool { return all(p, isOperand) }
func (n Names) isSafe() bool    { return all(n, isName) }
func (t Text) isSafe() bool     { return true }
func (t Texts) isSafe() bool    { return true }
func (h Hosts) isSafe() bool    { return all(h, isHost) }
func (p part) isSafe() bool     { return !p.refused }

// isSafe: ssh and pdsh take for an option what begins like one, behind an account too, and
// pdsh a list or a file where there is a comma, a caret or a slash.
func (h Host) isSafe() bool { return host.MatchString(string(h)) }

var (
	prose    = regexp.MustCompile(`^[\w@%+=:,./ ()\[\]-]*$`)
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	host     = regexp.MustCompile(`^([\w.][\w.+-]*@)?[\w:][\w.:%-]*$`)
)

// isOperand is whether a program takes a word for what it works on, not for an option.
func isOperand(word string) bool { return isPrintable(word) && word != "" && word[0] != '-' }

func isName(word string) bool { return IsPlain(word) && isOperand(word) }

// isPrintable is whether a word can be pasted: a terminal takes control characters for
// commands of its own, and what is not seen is not what it seems.
func isPrintable(word string) bool {
	return strings.IndexFunc(word, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) < 0
}

func printable(word string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, word)
}

func all(words []string, is func(string) bool) bool {
	for _, word := range words {
		if !is(word) {
			return false
		}
	}
	return len(words) > 0
}

// Quote quotes a word for a person to paste into a POSIX shell.
func Quote(word string) string {
	if IsPlain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}

// IsPlain reports whether a shell takes the word as it stands, however often it is parsed:
// what goes through ssh is parsed once here and once there.
func IsPlain(word string) bool {
	special := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("@%+=:,./_-", r)
	}
	return word != "" && strings.IndexFunc(word, special) < 0
}
