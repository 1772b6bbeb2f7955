package main

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// slips finds in a text what YAML takes for signs of its own, and a person means as it
// stands: a comparison without quotes above all. The parser's words for these name no way
// out, and often the wrong line. A slip is said and mended, so that the text can be read
// on and its other mistakes be said as well.
type slips struct {
	file  *policyFile
	text  string
	depth int // of brackets that are open
}

// isStrange is whether YAML read something that no policy holds: a tag of its own kind,
// as it takes "!=550", or a text over several lines that has none, as it takes ">5".
func isStrange(node *yaml.Node) bool {
	local := strings.HasPrefix(node.Tag, "!") && !strings.HasPrefix(node.Tag, "!!")
	if local || node.Style&(yaml.FoldedStyle|yaml.LiteralStyle) != 0 && node.Value == "" {
		return true
	}
	for _, child := range node.Content {
		if isStrange(child) {
			return true
		}
	}
	return false
}

// severalLines begins a text over several lines, which is taken as it stands.
var severalLines = regexp.MustCompile(`(?:^|[:-]\s+)[|>][-+]?\s*(?:#.*)?$`)

// mend is the text without its slips, each of which it says.
func (f *policyFile) mend(text string) string {
	s := slips{file: f, text: text}
	lines := strings.Split(text, "\n")
	const none = -1
	within := none // the indentation of the line whose text goes on below it
	for i, line := range lines {
		words := strings.TrimLeft(line, " \t")
		indent := len(line) - len(words)
		if within != none && (strings.TrimSpace(words) == "" || indent > within) {
			continue
		}
		within = none
		if severalLines.MatchString(strings.TrimRight(line, "\r")) {
			within = indent
		}
		blanks := line[:indent]
		if strings.Contains(blanks, "\t") && strings.TrimSpace(words) != "" {
			s.said(i+1, "is indented by a tab, and YAML takes blanks alone: write blanks")
			blanks = strings.ReplaceAll(blanks, "\t", "  ")
		}
		lines[i] = blanks + s.line(i+1, words)
	}
	return strings.Join(lines, "\n")
}

func (s *slips) said(line int, format string, args ...any) {
	s.file.fault(&yaml.Node{Line: line}, format, args...)
}

// line is one without its slips. A value can only begin at its start, and behind what
// YAML has before one.
func (s *slips) line(number int, text string) string {
	begins := true
	for i := 0; i < len(text); i++ {
		value := text[i:]
		length := 1
		switch {
		case begins && (value[0] == '"' || value[0] == '\''):
			if length = quoteEnd(value); length == 0 {
				length = s.valueEnd(value)
				s.said(number, "the quote that begins %s is not closed: write %s%c", value[:length], value[:length], value[0])
				text, length = text[:i+length]+value[:1]+value[length:], length+1
			}
		case begins && s.isSign(value):
			length = s.valueEnd(value)
			quoted := "'" + strings.ReplaceAll(value[:length], "'", "''") + "'"
			shown := quoted
			if !strings.ContainsAny(quoted, `"\`) {
				shown = `"` + value[:length] + `"`
			}
			s.said(number, "write %s in quotes: %c at the start of a value is a sign of YAML's own", shown, value[0])
			text, length = text[:i]+quoted+value[length:], len(quoted)
		case value[0] == '#' && (i == 0 || text[i-1] == ' ' || text[i-1] == '\t'):
			return text
		case value[0] == ' ' || value[0] == '\t':
			begins = begins || i > 0 && text[i-1] == ':'
			continue
		case begins && value[0] == '-' && strings.HasPrefix(value, "- "):
			continue
		case begins && (value[0] == '[' || value[0] == '{'):
			s.depth++
			continue
		case s.depth > 0 && (value[0] == ']' || value[0] == '}'):
			s.depth--
		}
		begins = s.depth > 0 && value[0] == ','
		i += length - 1
	}
	return text
}

// signs are what YAML has a use of its own for at the start of a value, with what may
// follow there that a policy means so.
var signs = map[byte]*regexp.Regexp{
	'>': regexp.MustCompile(`^>[-+]?\s*(?:#.*)?$`),
	'!': regexp.MustCompile(`^!!`),
	'*': regexp.MustCompile(`^\*([\w-]+)\s*(?:[,\]}#].*)?$`),
	'@': nil, '`': nil, '%': nil,
}

// isSign is whether a value begins with a sign that is not meant as one. An alias is
// meant where there is its anchor.
func (s *slips) isSign(value string) bool {
	meant, isSign := signs[value[0]]
	if !isSign || meant == nil {
		return isSign
	}
	found := meant.FindStringSubmatch(value)
	return found == nil || len(found) > 1 && !strings.Contains(s.text, "&"+found[1])
}

// behindValue begins what is not of a value any more: a comment, or the end of a key.
var behindValue = regexp.MustCompile(`\s+#|:\s|:?\s*$`)

// valueEnd is how long the value is that a text begins with.
func (s *slips) valueEnd(text string) int {
	end := behindValue.FindStringIndex(text)[0]
	if at := strings.IndexAny(text[:end], ",]}"); s.depth > 0 && at >= 0 {
		end = len(strings.TrimRight(text[:at], " "))
	}
	return end
}

// quoteEnd is how long the quoted text is that another begins with, 0 where it does not
// end there.
func quoteEnd(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[0] == '"' && text[i] == '\\':
			i++
		case text[i] == text[0]:
			return i + 1
		}
	}
	return 0
}
