// SPDX-License-Identifier: Apache-2.0

package args

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"preflight/hostfile"
	"preflight/launch"
)

// argumentParser imitates a parser of Python's argparse in the form that launchers use: options
// first, then a script. All words after the script are the script's arguments.
//
// Source: CPython 3.11, Lib/argparse.py, _parse_known_args, with one positional and one REMAINDER
// at the end, as in all these parsers.
type argumentParser struct {
	program    string   // name in messages for people: deepspeed
	prog       string   // the text before the colon in its error messages
	outer      string   // the parser of which this one is a subcommand, "" for none
	options    []option // in the order in which the real parser adds them
	absent     []option // options that other releases have and this one lacks
	abbreviate bool     // allow_abbrev
	required   string   // names of the positionals
	// checksRemainder means that an ambiguous option is refused even among the script's arguments.
	checksRemainder bool
}

type option struct {
	names   []string
	into    any // *string, *int, **int, *float64 or *bool; nil for the help option
	choices []string
	// since is the first release with the option, and until is the first release without it. ""
	// means no such release.
	since, until string
	// preset is the value that applies if no word gives the option.
	preset string
}

func (o option) name() string { return strings.Join(o.names, "/") }

// long returns the option's long name, for error messages.
func (o option) long() string {
	i := slices.IndexFunc(o.names, func(name string) bool { return strings.HasPrefix(name, "--") })
	return o.names[i]
}

func (o option) isFlag() bool {
	_, isBool := o.into.(*bool)
	return isBool || o.into == nil
}

type reading struct {
	argumentParser
	words []string
	kinds []kindOfWord
	taken map[int]match // by index: the option that a word stands for
	given map[string]bool
	extra []string // unknown options

	script    string
	arguments []string // arguments of the script
}

// kindOfWord classifies a single word.
type kindOfWord byte

const (
	isArgument kindOfWord = 'A'
	isOption   kindOfWord = 'O'
	isDivider  kindOfWord = '-' // the first "--"
)

// parse sets the options and returns the rest of the command line.
func (p argumentParser) parse(words []string) (*reading, error) {
	r := &reading{argumentParser: p, words: words, taken: map[int]match{}, given: map[string]bool{}}
	err := r.classify()
	// Options come first. The first argument ends them; all words after it belong to the script,
	// including options.
	at := 0
	for err == nil && at < len(words) && r.kinds[at] == isOption {
		at, err = r.takeOption(at)
	}
	if err != nil {
		return nil, err
	}
	found := r.takePositionals(at)
	if err := r.takePresets(); err != nil {
		return nil, err
	}
	switch {
	case !found:
		return nil, r.refuse("the following arguments are required: "+p.required,
			"it names no script to start: put the script after the options, and the script's own arguments after the script")
	case len(r.extra) > 0:
		return nil, r.unknown()
	}
	return r, nil
}

func (r *reading) classify() error {
	divided := false
	for i, word := range r.words {
		kind := isArgument
		switch {
		case divided:
		case word == "--":
			kind, divided = isDivider, true
		default:
			found, looksLikeOne := r.match(word)
			if found.could != nil && r.checksRemainder {
				return r.ambiguous(found)
			}
			if looksLikeOne {
				kind, r.taken[i] = isOption, found
			}
		}
		r.kinds = append(r.kinds, kind)
	}
	return nil
}

// takePositionals matches "-*A-*", argparse's pattern for the script, and then all remaining words.
// It drops a "--" before the script and one directly after it.
func (r *reading) takePositionals(at int) (found bool) {
	if at < len(r.words) && r.kinds[at] == isDivider {
		at++
	}
	if at == len(r.words) {
		return false
	}
	r.script, at = r.words[at], at+1
	if at < len(r.words) && r.kinds[at] == isDivider {
		at++
	}
	r.arguments = r.words[at:]
	return true
}

// takeOption reads the option at an index with its value and returns the index of the next word.
// One word may hold several options: -qH means -q -H.
func (r *reading) takeOption(at int) (next int, err error) {
	m := r.taken[at]
	if m.could != nil {
		return 0, r.ambiguous(m)
	}
	if m.option == nil {
		r.extra = append(r.extra, r.words[at])
		return at + 1, nil
	}
	var flags []option
	for m.option.isFlag() && m.hasValue {
		next, isMore := r.nextFlag(m)
		if !isMore {
			return 0, r.refuse(fmt.Sprintf("argument %s: ignored explicit argument %s", m.option.name(), hostfile.PythonRepr(m.value)),
				"%s takes no value, but got %q", m.option.name(), m.value)
		}
		flags, m = append(flags, *m.option), next
	}
	next = at + 1
	switch {
	case m.option.isFlag():
		flags = append(flags, *m.option)
	case !m.hasValue && (next == len(r.words) || r.kinds[next] != isArgument):
		return 0, r.refuse(fmt.Sprintf("argument %s: expected one argument", m.option.name()),
			"%s needs a value; write a value that begins with a hyphen as %s=-…", m.option.name(), m.option.long())
	case !m.hasValue:
		m.value = r.words[next]
		next++
	}
	for _, flag := range flags {
		if flag.into == nil {
			return 0, &launch.UsageError{Program: r.program, Message: "this prints help and starts nothing", Original: "exit 0"}
		}
		*flag.into.(*bool) = true
		r.given[flag.name()] = true
	}
	if m.option.isFlag() {
		return next, nil
	}
	return next, r.take(*m.option, m.value)
}

func (r *reading) nextFlag(m match) (next match, isMore bool) {
	if strings.HasPrefix(m.typed, "--") || m.value == "" {
		return match{}, false
	}
	next = match{typed: "-" + m.value[:1], value: m.value[1:], hasValue: len(m.value) > 1}
	next.option = r.named(next.typed)
	return next, next.option != nil
}

func (r *reading) take(o option, value string) error {
	r.given[o.name()] = true
	if err := r.convert(o, value); err != nil {
		return err
	}
	if o.choices != nil && !slices.Contains(o.choices, value) {
		var quoted []string
		for _, choice := range o.choices {
			quoted = append(quoted, hostfile.PythonRepr(choice))
		}
		return r.refuse(fmt.Sprintf("argument %s: invalid choice: %s (choose from %s)", o.name(), hostfile.PythonRepr(value), strings.Join(quoted, ", ")),
			"%s must be one of %s, not %q", o.name(), strings.Join(o.choices, ", "), value)
	}
	return nil
}

// takePresets converts the presets of options that were not given. argparse does not check them
// against the choices.
func (r *reading) takePresets() error {
	for _, o := range r.options {
		if o.preset == "" || r.given[o.name()] {
			continue
		}
		if err := r.convert(o, o.preset); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) convert(o option, value string) error {
	invalid := func(kind, takes string) error {
		hint := ""
		if strings.HasPrefix(value, "tcp://") {
			hint = ": Kubernetes sets MASTER_PORT to that if a Service is named master; write the port, or set enableServiceLinks: false for the pods"
		}
		return r.refuse(fmt.Sprintf("argument %s: invalid %s value: %s", o.name(), kind, hostfile.PythonRepr(value)), "%s takes %s, not %q%s", o.name(), takes, value, hint)
	}
	switch into := o.into.(type) {
	case *string:
		*into = value
	case *float64:
		number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || strings.ContainsAny(value, "xX") { // Python accepts no hexadecimal numbers here
			return invalid("float", "a number")
		}
		*into = number
	case *int, **int:
		digits, ok := hostfile.PythonInt(value)
		if !ok {
			return invalid("int", "a whole number")
		}
		number, err := strconv.Atoi(digits)
		if err != nil {
			return &launch.UsageError{Program: r.program, Message: fmt.Sprintf("%s must be smaller than %s", o.name(), digits)}
		}
		if optional, isOptional := into.(**int); isOptional {
			*optional = &number
		} else {
			*into.(*int) = number
		}
	}
	return nil
}

// match is the option that a word stands for.
type match struct {
	option   *option // nil if no option has that name
	typed    string  // the name, as typed or completed
	value    string  // the value inside the same word
	hasValue bool
	could    []string // the possible names, if the abbreviation is ambiguous
}

// checksRemainder reports whether this Python version also refuses ambiguous options among the
// script's arguments. "" means an unknown version, which is assumed to refuse them.
//
// Source: python/cpython, issue 58573, fixed in 3.12.8 and 3.13.1.
func checksRemainder(python string) bool {
	return python == "" || hostfile.Before(python, "3.12.8") || hostfile.Before(python, "3.13.1") && !hostfile.Before(python, "3.13.0")
}

// negativeNumber is argparse's pattern for negative numbers. A word that matches is not an option.
var negativeNumber = regexp.MustCompile(`^-([0-9]+|[0-9]*\.[0-9]+)\n?$`)

// match reads a word as an option if it looks like one: by its full name, by an abbreviation, or by
// a single letter followed by the value.
//
// Source: CPython 3.11, Lib/argparse.py, _parse_optional and _get_option_tuples.
func (p argumentParser) match(word string) (m match, looksLikeOne bool) {
	if !strings.HasPrefix(word, "-") || word == "-" {
		return match{}, false
	}
	if exact := p.named(word); exact != nil {
		return match{option: exact, typed: word}, true
	}
	name, value, hasValue := strings.Cut(word, "=")
	if exact := p.named(name); exact != nil && hasValue {
		return match{option: exact, typed: name, value: value, hasValue: true}, true
	}
	var found []match
	if strings.HasPrefix(word, "--") {
		found = p.abbreviated(name, value, hasValue)
	} else if short := p.named(word[:2]); short != nil {
		found = []match{{option: short, typed: word[:2], value: word[2:], hasValue: true}}
	}
	switch {
	case len(found) == 1:
		return found[0], true
	case len(found) > 1:
		m := match{typed: word}
		for _, one := range found {
			m.could = append(m.could, one.typed)
		}
		return m, true
	case negativeNumber.MatchString(word), strings.Contains(word, " "):
		return match{}, false
	}
	return match{typed: word}, true
}

func (p argumentParser) ambiguous(m match) error {
	names := strings.Join(m.could, ", ")
	way := "%s could be %s: write it out"
	if p.checksRemainder {
		way += " (your Python also reads the script's arguments; write full names there, or use a newer Python)"
	}
	return p.refuse(fmt.Sprintf("ambiguous option: %s could match %s", m.typed, names), way, m.typed, names)
}

func (p argumentParser) named(name string) *option {
	i := slices.IndexFunc(p.options, func(o option) bool { return slices.Contains(o.names, name) })
	if i < 0 {
		return nil
	}
	return &p.options[i]
}

// abbreviated returns all names with this prefix. Two names of the same option count twice.
func (p argumentParser) abbreviated(prefix, value string, hasValue bool) []match {
	if !p.abbreviate {
		return nil
	}
	var found []match
	for i := range p.options {
		for _, name := range p.options[i].names {
			if strings.HasPrefix(name, prefix) {
				found = append(found, match{option: &p.options[i], typed: name, value: value, hasValue: hasValue})
			}
		}
	}
	return found
}

// refuse returns an error with argparse's own message (original) and preflight's message, which
// says what to do.
func (p argumentParser) refuse(original, format string, values ...any) *launch.UsageError {
	return &launch.UsageError{Program: p.program, Message: fmt.Sprintf(format, values...), Original: p.prog + ": error: " + original}
}

func (r *reading) unknown() error {
	if r.outer != "" {
		r.prog = r.outer
	}
	return r.refuse("unrecognized arguments: "+strings.Join(r.extra, " "), "%s", r.suggestion(r.extra[0]))
}

func (r *reading) suggestion(word string) string {
	name, _, _ := strings.Cut(word, "=")
	respelled := "--" + strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_")
	if r.named(respelled) != nil {
		return fmt.Sprintf("there is no option %s: write %s", name, respelled)
	}
	for _, o := range r.absent {
		switch {
		case !slices.Contains(o.names, respelled) && !slices.Contains(o.names, name):
		case o.until != "":
			return fmt.Sprintf("there is no option %s since DeepSpeed %s: leave it out", name, o.until)
		default:
			return fmt.Sprintf("there is no option %s before DeepSpeed %s: install that release, or leave it out", name, o.since)
		}
	}
	return fmt.Sprintf("there is no option %s: correct it, or move it after the script if it belongs to the script", name)
}
