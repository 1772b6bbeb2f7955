// SPDX-License-Identifier: Apache-2.0

package fix

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"preflight/internal/text"
)

// Arg is a value in the code of a command. Its type decides how it is quoted, and which values are
// refused.
type Arg interface{ write(*writer) }

type (
	// Word is any word, including an option: a part of the user's own command line, or a value.
	Word string
	// Path is a file or directory.
	Path string
	// Package is a package name for pip, with or without a version. Addresses and paths are
	// refused, because anyone's code could be there.
	Package string
	// Module is the name of a Python module.
	Module string
	// Operand is any word that is not an option, such as an account or a key of a file.
	Operand string
	// Host is the name or address of a machine, with or without an account before it.
	Host string
	// Name is a name from the kernel or a driver: letters, digits and a few signs that no shell
	// interprets. Anything else is refused.
	Name string
	// Pattern is a Name, written as a regular expression that matches only that name.
	Pattern string
	// Variable is the name of an environment variable.
	Variable string
	// Setting is an environment variable with its value.
	Setting struct{ Variable, Value string }
	// Number is a count, a size or a port. It is never negative.
	Number int64
	// Text is prose in a remark.
	Text string
)

// Code returns code as an argument. It serves for an optional part, or for one of two variants.
func Code(code literal, args ...Arg) Arg { return filled{code, args} }

// Join returns the arguments with separator between them. An empty list is refused.
func Join(separator literal, args ...Arg) Arg { return list{separator, args} }

// List returns words of one type with separator between them. An empty list is refused.
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

// raw is text that this package itself has assembled.
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
	// Parentheses are not allowed: an interactive zsh does not ignore comments, and would run some
	// parenthesised texts, such as (e:…:), as a command.
	prose    = regexp.MustCompile(`^[\w@%+=:,./ \[\]-]*$`)
	variable = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	module   = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
	host     = regexp.MustCompile(`^([\w.][\w.+-]*@)?[\w:][\w.:%-]*$`)
	// requirement matches the part of PEP 508 that pip can install from a package index alone.
	requirement = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(\[[\w.,-]*\])?(,?(==|!=|<=|>=|~=|<|>)[\w.!+*-]+)*$`)
)

// isHost reports whether a name is safe as a host. It refuses names that ssh and pdsh read as an
// option, even after an account. It also refuses names with a comma, caret or slash, which pdsh
// reads as a list or a file.
func isHost(name string) bool { return host.MatchString(name) }

// isOperand reports whether programs read a word as an operand, not as an option or an editor
// command.
func isOperand(word string) bool {
	return isPrintable(word) && word != "" && word[0] != '-' && word[0] != '+'
}

func isName(word string) bool { return text.IsPlain(word) && isOperand(word) }

// isPrintable reports whether a word is safe to paste. Control characters are not safe, because
// terminals interpret them. Invisible characters are not safe, because they hide what is pasted.
func isPrintable(word string) bool {
	return strings.IndexFunc(word, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) < 0
}
