package launch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// match is what a word that looks like an option stands for.
type match struct {
	option   *option // nil when there is none of that name
	typed    string  // the name, as it was given or meant
	value    string  // what the word itself gives the option
	hasValue bool
}

// negativeNumber is argparse's: a word like that is no option.
var negativeNumber = regexp.MustCompile(`^-(\p{Nd}+|\p{Nd}*\.\p{Nd}+)\n?$`)

// match reads one word as an option where it looks like one: by its whole name,
// by what it begins with, or by a single letter that its value follows.
//
// Source: CPython 3.11, Lib/argparse.py, _parse_optional and _get_option_tuples.
func (p argumentParser) match(word string) (m match, looksLikeOne bool, err error) {
	if !strings.HasPrefix(word, "-") || word == "-" {
		return match{}, false, nil
	}
	if exact := p.named(word); exact != nil {
		return match{option: exact, typed: word}, true, nil
	}
	name, value, hasValue := strings.Cut(word, "=")
	if exact := p.named(name); exact != nil && hasValue {
		return match{exact, name, value, true}, true, nil
	}
	var found []match
	if strings.HasPrefix(word, "--") {
		found = p.abbreviated(name, value, hasValue)
	} else if short := p.named(word[:2]); short != nil {
		found = []match{{short, word[:2], word[2:], true}}
	}
	switch {
	case len(found) == 1:
		return found[0], true, nil
	case len(found) > 1:
		names := make([]string, len(found))
		for i, one := range found {
			names[i] = one.typed
		}
		return match{}, false, p.refuse(fmt.Sprintf("ambiguous option: %s could match %s", word, strings.Join(names, ", ")),
			"%s could be %s: write it out (Python looks at the script's arguments too, and there only a whole name or none at all will do)", word, strings.Join(names, ", "))
	case negativeNumber.MatchString(word), strings.Contains(word, " "):
		return match{}, false, nil
	}
	return match{typed: word}, true, nil
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
				found = append(found, match{&p.options[i], name, value, hasValue})
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
