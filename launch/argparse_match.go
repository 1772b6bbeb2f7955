package launch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"preflight/hostfile"
)

// match is what a word that looks like an option stands for.
type match struct {
	option   *option // nil when there is none of that name
	typed    string  // the name, as it was given or meant
	value    string  // what the word itself gives the option
	hasValue bool
	could    []string // the names that it may be short for, when there are several
}

// looksBehind is whether a Python refuses an ambiguous option among the script's
// own arguments too, "" being one that does.
//
// Source: python/cpython, issue 58573, fixed in 3.12.8 and 3.13.1.
func looksBehind(python string) bool {
	return python == "" || hostfile.Before(python, "3.12.8") || hostfile.Before(python, "3.13.1") && !hostfile.Before(python, "3.13.0")
}

// negativeNumber is argparse's: a word like that is no option.
var negativeNumber = regexp.MustCompile(`^-(\p{Nd}+|\p{Nd}*\.\p{Nd}+)\n?$`)

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

// ambiguous refuses a word that could be several options.
func (p argumentParser) ambiguous(m match) error {
	names := strings.Join(m.could, ", ")
	way := "%s could be %s: write it out"
	if p.looksBehind {
		way += " (your Python looks at the script's arguments too; there, only a whole name will do, or a newer Python)"
	}
	return p.refuse(fmt.Sprintf("ambiguous option: %s could match %s", m.typed, names), way, m.typed, names)
}

// named is the option of that name, nil for none.
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
	var found []match
	if !p.abbreviate {
		return nil
	}
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
func (p argumentParser) refuse(said, format string, values ...any) *UsageError {
	return &UsageError{Program: p.program, Message: fmt.Sprintf(format, values...), Said: p.prog + ": error: " + said}
}

// unknown refuses words that no option is named like.
func (r *reading) unknown() error {
	said := r.refuse("unrecognized arguments: "+strings.Join(r.extra, " "), "%s", r.instead(r.extra[0]))
	if r.outer != "" {
		said.Said = r.outer + strings.TrimPrefix(said.Said, r.prog)
	}
	return said
}

// instead is the way out for an option that is not there.
func (r *reading) instead(word string) string {
	name, _, _ := strings.Cut(word, "=")
	respelled := "--" + strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_")
	if r.named(respelled) != nil {
		return fmt.Sprintf("there is no option %s: write %s", name, respelled)
	}
	for _, o := range r.absent {
		switch {
		case !slices.Contains(o.names, respelled) && !slices.Contains(o.names, name):
		case o.until != "":
			return fmt.Sprintf("there is no option %s from DeepSpeed %s on: leave it out", name, o.until)
		default:
			return fmt.Sprintf("there is no option %s before DeepSpeed %s: install that, or leave it out", name, o.since)
		}
	}
	return fmt.Sprintf("there is no option %s: correct it, or move it behind the script if it is the script's", name)
}
