// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strings"
)

type pythonError string

func (e pythonError) Error() string { return string(e) }

// The errors for a text that ends inside a quotation or after a backslash.
const (
	errNoClosingQuotation = pythonError("No closing quotation")
	errNoEscapedCharacter = pythonError("No escaped character")
)

// SplitWords splits a text into words like Python's shlex.split, with which DeepSpeed splits
// --launcher_args. It splits at white space and understands the quotes and backslashes of a POSIX
// shell. It expands nothing and knows no comments. Its errors have Python's wording.
//
// Source: CPython 3.12, Lib/shlex.py, shlex.read_token with posix and whitespace_split set.
func SplitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped, quote := false, false, rune(0)
	for _, r := range text {
		switch {
		case escaped:
			// Between double quotes a backslash is kept, unless it escapes a backslash or a quote.
			if quote != 0 && r != '\\' && r != quote {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	switch {
	case escaped:
		return nil, errNoEscapedCharacter
	case quote != 0:
		return nil, errNoClosingQuotation
	case inWord:
		words = append(words, word.String())
	}
	return words, nil
}

// survivesShell reports whether a value reaches a program unchanged after its word passes through
// pdsh and a node's shell. pdsh replaces %h, %u, %n and %% in every word. ssh joins the words with
// spaces, and the shell expands, splits and unquotes the result.
//
// Source: pdsh 2.34, src/pdsh/dsh.c, and POSIX.1-2017, XCU 2.2 and 2.6; braces are bash's. Tried
// with bash 5.2.
func survivesShell(value, word string) bool {
	if slices.ContainsFunc([]string{"%h", "%u", "%n", "%%"}, func(mark string) bool { return strings.Contains(word, mark) }) || hasShellSyntax(word) {
		return false
	}
	if word == "" {
		return true // NAME= still sets the variable; arguments are handled elsewhere
	}
	words, err := SplitWords(word)
	return err == nil && len(words) == 1 && words[0] == value
}

func hasShellSyntax(word string) bool {
	var quote rune
	escaped := false
	for i, r := range word {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
		case r == '$' || r == '`':
			return true
		case quote != 0:
		case r == '\'' || r == '"':
			quote = r
		case strings.ContainsRune(";&|<>()*?[\t\n\r ", r), r == '#' && i == 0, r == '{' && braces(word[i:]):
			return true
		case r == '~' && (i == 0 || strings.ContainsRune("=:", rune(word[i-1]))):
			return true
		}
	}
	return false
}

func braces(text string) bool {
	inside, _, closed := strings.Cut(text, "}")
	return closed && (strings.Contains(inside, ",") || strings.Contains(inside, ".."))
}
