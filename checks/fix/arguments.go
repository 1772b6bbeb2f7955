// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"preflight/internal/text"
)

// Arg is a value among code. Its type says what it is, and so what of it is safe.
type Arg interface{ write(*writer) }

type (
	// Word is any word, an option too: a part of the user's own command line, a value.
	Word string
	// Path is a file or directory.
	Path string
	// Package is what pip installs by its name, with versions or without: not by an address or
	// a path, which would be whoever's code.
	Package string
	// Module is what python imports.
	Module string
	// Operand is any word that is no option: an account, the key of a file.
	Operand string
	// Host is the name or address of a machine, with an account before it or without.
	Host string
	// Name is what the kernel or a driver calls something: letters, digits and a few signs,
	// which no shell ever takes for more. Anything else is no such name.
	Name string
	// Pattern is a Name as a regular expression that it alone matches.
	Pattern string
	// Variable is the name of an environment variable.
	Variable string
	// Setting is one of an environment, and what it is set to.
	Setting struct{ Variable, Value string }
	// Number is a count, a size, a port, none of which is negative.
	Number int64
	// Text is prose in a remark.
	Text string
)

// Code is code among code: a part that is written or left out, or one of two.
func Code(code literal, args ...Arg) Arg { return filled{code, args} }

// Join is arguments with code between them. None at all are refused.
func Join(separator literal, args ...Arg) Arg { return list{separator, args} }

// List is words of one type with code between them, and none at all are refused.
func List[T interface {
	~string
	Arg
}](separator literal, words []string) Arg {
	l := list{separator, make([]Arg, len(words))}
	for i, word := range words {
		l.args[i] = T(word)
	}
	return l
}

type list struct {
	separator literal
	args      []Arg
}

// raw is text of this package's own.
type raw string

func (x Word) write(w *writer)     { w.word(string(x), isPrintable(string(x))) }
func (x Path) write(w *writer)     { w.word(string(x), isOperand(string(x))) }
func (x Package) write(w *writer)  { w.word(string(x), requirement.MatchString(string(x))) }
func (x Module) write(w *writer)   { w.word(string(x), module.MatchString(string(x))) }
func (x Operand) write(w *writer)  { w.word(string(x), isOperand(string(x))) }
func (x Name) write(w *writer)     { w.word(string(x), isName(string(x))) }
func (x Host) write(w *writer)     { w.word(string(x), isHost(string(x))) }
func (x Variable) write(w *writer) { w.word(string(x), variable.MatchString(string(x))) }
func (x Number) write(w *writer)   { w.word(strconv.FormatInt(int64(x), 10), x >= 0) }
func (x raw) write(w *writer)      { w.WriteString(string(x)) }
func (x filled) write(w *writer)   { w.text(x) }

func (x Setting) write(w *writer) {
	w.word(x.Variable+"="+x.Value, variable.MatchString(x.Variable) && isPrintable(x.Value))
}

func (x Pattern) write(w *writer) {
	if name := string(x); isName(name) && !strings.Contains(name, "/") {
		w.WriteString(regexp.QuoteMeta(name))
	} else {
		w.word(name, false)
	}
}

func (x Text) write(w *writer) {
	if !w.isCode && prose.MatchString(string(x)) {
		w.WriteString(string(x))
	} else {
		w.word(string(x), isPrintable(string(x)))
	}
}

func (x list) write(w *writer) {
	w.refused = w.refused || len(x.args) == 0
	for i, arg := range x.args {
		if i > 0 {
			w.text(filled{literal: x.separator})
		}
		arg.write(w)
	}
}

var (
	// Without parentheses: a zsh that is typed into takes a remark for words, and in some of those
	// (e:…:) for a command.
	prose    = regexp.MustCompile(`^[\w@%+=:,./ \[\]-]*$`)
	variable = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	module   = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
	host     = regexp.MustCompile(`^([\w.][\w.+-]*@)?[\w:][\w.:%-]*$`)
	// requirement is of the grammar of PEP 508 what needs no more than an index.
	requirement = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(\[[\w.,-]*\])?(,?(==|!=|<=|>=|~=|<|>)[\w.!+*-]+)*$`)
)

// isHost: ssh and pdsh take for an option what begins like one, behind an account too, and
// pdsh a list or a file where there is a comma, a caret or a slash.
func isHost(name string) bool { return host.MatchString(name) }

// isOperand is whether a program takes a word for what it works on, not for an option, nor an
// editor for a command.
func isOperand(word string) bool {
	return isPrintable(word) && word != "" && word[0] != '-' && word[0] != '+'
}

func isName(word string) bool { return text.IsPlain(word) && isOperand(word) }

// isPrintable is whether a word can be pasted: a terminal takes control characters for
// commands of its own, and what is not seen is not what it seems.
func isPrintable(word string) bool {
	return strings.IndexFunc(word, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) < 0
}
