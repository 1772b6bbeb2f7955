// SPDX-License-Identifier: Apache-2.0

package args

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"preflight/launch"
)

// shells run a script of commands, and quiet are commands in one that change nothing of what
// comes behind them.
var (
	shells = []string{"bash", "sh", "dash"}
	quiet  = []string{"set", "echo", "printf", "mkdir", "date", "sleep", "true", ":"}
)

// shellScript is a script as far as it was read.
type shellScript struct {
	name      string
	line      int
	arguments []string
	getenv    func(string) string
	set       [][2]string // its variables by name and value, the last of a name holds
	exported  []string
}

// OfScript is what to type in place of words that run a shell script which is plain, of
// assignments and then a launch command: NAME=value for what it exports, and the command. It is
// nil where they run none. An error is a [*launch.UsageError], and says which line is not plain.
func OfScript(words []string, around Surroundings) (typed []string, err error) {
	name, arguments := scriptOf(words)
	if name == "" {
		return nil, nil
	}
	text, err := around.ReadFile(name)
	if err != nil {
		return nil, &launch.UsageError{Program: path.Base(words[0]), Message: fmt.Sprintf("%s cannot be read: %v", name, err)}
	}
	s := &shellScript{name: name, arguments: arguments, getenv: around.Getenv}
	line := ""
	for i, part := range strings.Split(string(text), "\n") {
		if s.line == 0 {
			s.line = i + 1
		}
		if whole, goesOn := strings.CutSuffix(part, "\\"); goesOn {
			line += whole + " "
			continue
		}
		command, err := s.read(strings.TrimSpace(line + part))
		if command != nil || err != nil {
			return append(s.exports(), command...), err
		}
		line, s.line = "", 0
	}
	return nil, s.notPlain("it begins no launch that preflight knows")
}

// scriptOf is the script that words have a shell run, "" for none, and what it is handed.
func scriptOf(words []string) (name string, arguments []string) {
	switch {
	case len(words) == 0:
		return "", nil
	case slices.Contains(shells, path.Base(words[0])):
		words = words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0], "-") && !strings.Contains(words[0], "c") {
			words = words[1:]
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "-") {
			return "", nil
		}
	case path.Ext(words[0]) != ".sh":
		return "", nil
	}
	return words[0], words[1:]
}

// notPlain is why nobody can tell what a script starts, with the way out.
func (s *shellScript) notPlain(why string) error {
	at := s.name
	if s.line > 0 {
		at = fmt.Sprintf("%s:%d", s.name, s.line)
	}
	return &launch.UsageError{Program: at, Message: why + `: write "preflight --" before the launch in the script itself, where the shell has read all else`}
}

// read takes one line. It is a command where the launch begins.
func (s *shellScript) read(line string) ([]string, error) {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil, nil
	}
	words, err := s.words(line)
	if err != nil || len(words) == 0 {
		return nil, err
	}
	exports := words[0] == "export"
	if exports || words[0] == "exec" {
		words = words[1:]
	}
	var before [][2]string
	for len(words) > 0 && assigned.MatchString(words[0]) {
		name, value, _ := strings.Cut(words[0], "=")
		before, words = append(before, [2]string{name, value}), words[1:]
	}
	switch {
	case exports:
		s.exported = append(s.exported, words...) // without a value: what was set before
		for _, b := range before {
			s.exported = append(s.exported, b[0])
		}
		s.set = append(s.set, before...)
	case len(words) == 0:
		s.set = append(s.set, before...)
	case slices.Contains(quiet, words[0]):
	case Begins(words[0]) || pythonName.MatchString(path.Base(words[0])):
		for _, b := range before {
			s.exported = append(s.exported, b[0])
		}
		s.set = append(s.set, before...)
		return words, nil
	default:
		return nil, s.notPlain(fmt.Sprintf("preflight does not know what %s does before the launch", words[0]))
	}
	return nil, nil
}

// exports are what the launch will find in its environment by the script's word.
func (s *shellScript) exports() (all []string) {
	for _, one := range s.set {
		if slices.Contains(s.exported, one[0]) {
			all = append(all, one[0]+"="+one[1])
		}
	}
	return all
}

var (
	assigned = regexp.MustCompile(`^[A-Za-z_]\w*=`)
	// variable is $name, ${name}, ${name:-default} or a number of an argument.
	variable = regexp.MustCompile(`^(?:\{([A-Za-z_]\w*|[1-9])(?::?-([^{}$]*))?\}|([A-Za-z_]\w*|[1-9]))`)
)

// words are a line's as the shell makes them of it, up to where its output goes elsewhere.
//
// Source: POSIX.1-2017, XCU 2.2 to 2.6, as far as they are taken here.
func (s *shellScript) words(line string) (words []string, err error) {
	var word strings.Builder
	inWord, quote := false, byte(0)
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '\'' && c != '\'':
			word.WriteByte(c)
		case c == quote && quote != 0:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case c == '\\' && i+1 < len(line) && (quote == 0 || strings.IndexByte("$`\"\\", line[i+1]) >= 0):
			i++
			word.WriteByte(line[i])
			inWord = true
		case c == '$' && strings.HasPrefix(line[i:], `$@`) && quote == '"' && word.Len() == 0:
			words, inWord = append(words, s.arguments...), false
			i += len(`$@"`) - 1
			quote = 0
		case c == '$':
			match := variable.FindStringSubmatch(line[i+1:])
			if match == nil {
				return nil, s.notPlain("what is computed there only the shell knows")
			}
			i += len(match[0])
			value := s.value(match[1]+match[3], match[2])
			if quote != 0 || assigned.MatchString(word.String()) {
				word.WriteString(value)
				inWord = inWord || value != ""
				continue
			}
			for n, field := range strings.Fields(value) { // unquoted, it is taken apart at blanks
				if n > 0 {
					end()
				}
				word.WriteString(field)
				inWord = true
			}
		case quote != 0:
			if c == '`' {
				return nil, s.notPlain("what is computed there only the shell knows")
			}
			word.WriteByte(c)
		case c == ' ' || c == '\t':
			end()
		case c == '#' && !inWord:
			return words, nil
		case c == '>' || c == '|' && !strings.HasPrefix(line[i:], "||"): // a log: "2>&1 | tee log"
			if text := word.String(); text != "1" && text != "2" {
				end()
			}
			return words, nil
		case strings.IndexByte("&;<()`{}*?[]|", c) >= 0:
			return nil, s.notPlain(fmt.Sprintf("%q has the shell do more than run one command", string(c)))
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, s.notPlain("a quotation goes on in the next line")
	}
	end()
	return words, nil
}

// value is a variable's, or the default beside it where it has none.
func (s *shellScript) value(name, otherwise string) string {
	value := ""
	if name[0] >= '1' && name[0] <= '9' {
		if at := int(name[0] - '1'); at < len(s.arguments) {
			value = s.arguments[at]
		}
	} else {
		value = s.getenv(name)
	}
	for _, one := range s.set {
		if one[0] == name {
			value = one[1]
		}
	}
	if value == "" {
		return otherwise
	}
	return value
}
