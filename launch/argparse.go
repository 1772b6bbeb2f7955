package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/hostfile"
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
	// looksBehind is whether an ambiguous option is refused even where it is the
	// script's.
	looksBehind bool
}

// option is one of a parser's.
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

// name is how messages call an option.
func (o option) name() string { return strings.Join(o.names, "/") }

// long is its name for a way out.
func (o option) long() string {
	i := slices.IndexFunc(o.names, func(name string) bool { return strings.HasPrefix(name, "--") })
	return o.names[i]
}

// isFlag is whether an option takes no value.
func (o option) isFlag() bool {
	_, isBool := o.into.(*bool)
	return isBool || o.into == nil
}

// reading is a parser at work on a command line.
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
			"it names no script to start: put that behind the options, and behind it the script's own arguments")
	case len(r.extra) > 0:
		return nil, r.unknown()
	}
	return r, nil
}

// classify says of every word what it is, the script's own included.
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
			if found.could != nil && r.looksBehind {
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
				"%s takes no value, and here is %q", m.option.name(), m.value)
		}
		flags, m = append(flags, *m.option), next
	}
	next = at + 1
	switch {
	case m.option.isFlag():
		flags = append(flags, *m.option)
	case !m.hasValue && (next == len(r.words) || r.kinds[next] != isArgument):
		return 0, r.refuse(fmt.Sprintf("argument %s: expected one argument", m.option.name()),
			"%s lacks its value; one that begins with a hyphen is written %s=-…", m.option.name(), m.option.long())
	case !m.hasValue:
		m.value = r.words[next]
		next++
	}
	for _, flag := range flags {
		if flag.into == nil {
			return 0, &UsageError{Program: r.program, Message: "this asks for help, and starts nothing", Said: "exit 0"}
		}
		*flag.into.(*bool) = true
		r.given[flag.name()] = true
	}
	if m.option.isFlag() {
		return next, nil
	}
	return next, r.take(*m.option, m.value)
}

// nextFlag is what follows a flag in the same word.
func (r *reading) nextFlag(m match) (next match, isMore bool) {
	if strings.HasPrefix(m.typed, "--") || m.value == "" {
		return match{}, false
	}
	next = match{typed: "-" + m.value[:1], value: m.value[1:], hasValue: len(m.value) > 1}
	next.option = r.named(next.typed)
	return next, next.option != nil
}

// take gives an option its value, which must be one of its choices.
func (r *reading) take(o option, value string) error {
	r.given[o.name()] = true
	if err := r.convert(o, value); err != nil {
		return err
	}
	if o.choices != nil && !slices.Contains(o.choices, value) {
		quoted := make([]string, len(o.choices))
		for i, choice := range o.choices {
			quoted[i] = hostfile.PythonRepr(choice)
		}
		return r.refuse(fmt.Sprintf("argument %s: invalid choice: %s (choose from %s)", o.name(), hostfile.PythonRepr(value), strings.Join(quoted, ", ")),
			"%s takes one of %s, not %q", o.name(), strings.Join(o.choices, ", "), value)
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

// convert is the option's type.
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
			return &UsageError{Program: r.program, Message: fmt.Sprintf("%s cannot be as large as %s", o.name(), digits)}
		}
		if optional, isOptional := into.(**int); isOptional {
			*optional = &number
		} else {
			*into.(*int) = number
		}
	}
	return nil
}
