// SPDX-License-Identifier: Apache-2.0

package ci

import (
	"fmt"
	"strings"
	"unicode"

	"preflight/report"
)

// prose is text that holds what nodes said, in a line of Markdown, cut where it is long.
func prose(text string) string { return whole(report.Shorten(text, mostInCell)) }

// whole is prose of any length. Words that GitHub or GitLab make links, mentions of somebody
// or pictures of are code, where they do not.
func whole(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if isCalled(word) {
			words[i] = element(word)
		} else {
			words[i] = entities(word)
		}
	}
	return strings.Join(words, " ")
}

// isCalled is whether a word could stand for something else: user@w1, #1, www.h, http://h,
// w1:100: for its emoji, and [issue:1] on GitLab.
func isCalled(word string) bool {
	colons := strings.Count(word, ":")
	return strings.ContainsAny(word, "@#") || strings.Contains(strings.ToLower(word), "www.") ||
		colons > 1 || colons == 1 && (strings.Contains(word, "://") || strings.Contains(word, "["))
}

// code is text as code within a line, cut where it is long.
func code(text string) string { return element(report.Shorten(text, mostInCell)) }

// element is code of any length. An element takes every text, the bar in a table and
// backticks included, which a code span does not.
func element(text string) string { return "<code>" + entities(text) + "</code>" }

// linking is what makes a link even inside an element.
var linking = strings.NewReplacer("://", "&#58;//", "www.", "www&#46;", "WWW.", "WWW&#46;")

// entities escapes text for a line of Markdown. Lines become breaks, which a cell takes.
func entities(text string) string {
	lines := strings.Split(report.EscapeLines(text), "\n")
	for i, line := range lines {
		lines[i] = linking.Replace(references(line))
	}
	return strings.Join(lines, "<br>")
}

// references has the characters of a line that would be markup as character references,
// which never are, and the others as they are: many read a summary where nobody renders it.
func references(line string) string {
	var out strings.Builder
	runes := []rune(line)
	for i, r := range runes {
		if isMarkup(runes, i) {
			fmt.Fprintf(&out, "&#%d;", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// isMarkup is whether a character could mean something to Markdown, HTML or GitHub where
// it stands in a line. An underscore within a word does not, and a bracket only in front
// of what makes a link of it: no page of ours defines a name that [name] could refer to.
//
// Source: GitHub Flavored Markdown 0.29, 6.4 "Emphasis and strong emphasis", rules 2 and
// 6, and 6.6 "Links"; GitLab's [[page]] is the doubled one.
func isMarkup(line []rune, i int) bool {
	at := func(i int) rune {
		if i < 0 || i >= len(line) {
			return 0
		}
		return line[i]
	}
	switch line[i] {
	case '\\', '`', '*', '<', '#', '|', '~', '&', '$', '@':
		return true
	case '[':
		return at(i-1) == '!' || at(i+1) == '[' || at(i+1) == '^'
	case ']':
		return strings.ContainsRune("([:", at(i+1))
	case '_':
		first, last := i, i
		for at(first-1) == '_' {
			first--
		}
		for at(last+1) == '_' {
			last++
		}
		return !isWordly(at(first-1)) || !isWordly(at(last+1))
	}
	return false
}

// isWordly is whether a character is neither a blank nor punctuation to anybody.
func isWordly(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// wholeCommands are commands to copy, as far as they fit, and how many do not: half of one
// would be run like a whole one.
func wholeCommands(commands []string) (fitting []string, left int) {
	room := mostInBlock
	for i, command := range commands {
		if room -= len(command); room < 0 {
			return commands[:i], len(commands) - i
		}
	}
	return commands, 0
}

// block is text in a fence that is longer than any run of backticks in it.
func block(language, text string) string {
	text = report.EscapeLines(text)
	longest := 0
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '`' }) {
		longest = max(longest, len(run))
	}
	fence := strings.Repeat("`", max(longest+1, 3))
	return fence + language + "\n" + text + "\n" + fence + "\n"
}
