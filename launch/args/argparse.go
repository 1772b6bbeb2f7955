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

// argumentParser is one of Python's argparse parsers, of the kind that launchers
// have: options, then a script, and whatever follows is the script's.
//
// Source: CPython 3.11, Lib/argparse.py, _parse_known_args, with the one
// positional and the one REMAINDER that all these parsers end on.
type argumentParser struct {
	program    string   // for a person: deepspeed
	prog       string   // how its messages begin
	outer      string   // the parser that calls this one a subcommand, "" for none
	options    []option // in the order in which the real one adds them
	absent     []option // those of other releases
	abbreviate bool     // allow_abbrev
	required   string   // the names of the positionals
	// checksRemainder is whether an ambiguous option is refused even where it is the
	// script's.
	checksRemainder bool
}

type option struct {
	names   []string
	into    any // *string, *int, **int, *float64 or *bool; nil prints the help
	choices []string
	// since and until are the first release that has the option and the first that
	// no longer has it, "" for none.
	since, until string
	// preset is a text that stands in where no word gives the option.
	preset string
}

func (o option) name() string { return strings.Join(o.names, "/") }

// long is its name for a way out.
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
	taken map[int]match // by index, what a word that looks like an option stands for
	given map[string]bool
	extra []string // what nobody knows

	script    string
	arguments []string // of the script
}

// kindOfWord is what a word is by itself.
type kindOfWord byte

const (
	isArgument kindOfWord = 'A'
	isOption   kindOfWord = 'O'
	isDivider  kindOfWord = '-' // the first "--"
)

// parse fills in the options and says what else the command line holds.
func (p argumentParser) parse(words []string) (*reading, error) {
	r := &reading{argumentParser: p, words: words, taken: map[int]match{}, given: map[string]bool{}}
	err := r.classify()
	// Options come first, and the first argument ends them: the script takes the
	// rest, options and all.
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

// takePositionals matches "-*A-*" and then everything: the divider disappears
// before the script and right behind it.
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

// takeOption reads the option at an index with its value and says where the next
// word is. In one word there may be several: -qH is -q -H.
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

// takePresets converts what stands in for options that were not given. Choices
// are not looked at.
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
		return r.refuse(fmt.Sprintf("argument %s: invalid %s value: %s", o.name(), kind, hostfile.PythonRepr(value)), "%s takes %s, not %q", o.name(), takes, value)
	}
	switch into := o.into.(type) {
	case *string:
		*into = value
	case *float64:
		number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || strings.ContainsAny(value, "xX") { // Python knows no hexadecimal ones
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

// match is what a word that looks like an option stands for.
type match struct {
	option   *option // nil when there is none of that name
	typed    string  // the name, as it was given or meant
	value    string  // what the word itself gives the option
	hasValue bool
	could    []string // the names that it may be short for, when there are several
}

// checksRemainder is whether a Python refuses an ambiguous option among the script's
// own arguments too, "" being one that does.
//
// Source: python/cpython, issue 58573, fixed in 3.12.8 and 3.13.1.
func checksRemainder(python string) bool {
	return python == "" || hostfile.Before(python, "3.12.8") || hostfile.Before(python, "3.13.1") && !hostfile.Before(python, "3.13.0")
}

// negativeNumber is argparse's: a word like that is no option.
var negativeNumber = regexp.MustCompile(`^-([0-9]+|[0-9]*\.[0-9]+)\n?$`)

// match reads one word as an option where it looks like one: by its whole name,
// by what it begins with, or by a single letter that its value follows.
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

// abbreviated is all names that begin like this one, two of one option counting
// twice.
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

// refuse is what argparse would say behind its usage, and what to do instead.
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
