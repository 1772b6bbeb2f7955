package launch

import (
	"slices"
	"strings"
)

// survives is whether a value reaches a program as it is when its word goes
// through pdsh and the shell of a node: pdsh replaces %h, %u, %n and %% in every
// word, and the shell expands, splits and unquotes what ssh has joined with
// blanks.
//
// Source: pdsh 2.34, src/pdsh/dsh.c, and POSIX.1-2017, XCU 2.2 and 2.6; braces are
// bash's. Tried with bash 5.2.
func survives(value, word string) bool {
	if slices.ContainsFunc([]string{"%h", "%u", "%n", "%%"}, func(mark string) bool { return strings.Contains(word, mark) }) || live(word) {
		return false
	}
	if word == "" {
		return true // NAME= sets what it says; an argument is another matter
	}
	words, err := SplitWords(word)
	return err == nil && len(words) == 1 && words[0] == value
}

// live is whether a shell finds something to expand or to obey in a word.
func live(word string) bool {
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

// braces is whether bash makes several words of what begins with a brace.
func braces(text string) bool {
	inside, _, closed := strings.Cut(text, "}")
	return closed && (strings.Contains(inside, ",") || strings.Contains(inside, ".."))
}
