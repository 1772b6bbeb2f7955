// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// gram is how many bytes of a literal are looked up at once.
const gram = 4

// index says, at the price of one table look-up a byte, which patterns a line might
// match: each has some text without which it cannot.
// Almost no line of a log holds any, and only those that do see a regular expression.
type index struct {
	maybe [1 << 16]bool // by hash of a gram
	exact map[uint32][]entry
}

type entry struct {
	literal string
	offset  int // of the gram in the literal
	pattern *pattern
}

func (x *index) add(literal string, p *pattern) {
	best := 0
	for offset := range len(literal) - gram + 1 {
		if commonness(literal[offset:offset+gram]) < commonness(literal[best:best+gram]) {
			best = offset
		}
	}
	key := binary.LittleEndian.Uint32([]byte(literal[best : best+gram]))
	x.maybe[hash(key)] = true
	x.exact[key] = append(x.exact[key], entry{literal, best, p})
}

func hash(key uint32) uint16 { return uint16((key * 2654435761) >> 16) }

// commonness is a guess at how often a gram is met: the letters of English and of
// paths often, capitals and signs seldom.
func commonness(text string) int {
	sum := 0
	for _, c := range []byte(text) {
		switch {
		case c >= '0' && c <= '9':
			sum += 12
		case c == ' ':
			sum += 10
		case c >= 'a' && c <= 'z':
			sum += 8 - min(6, slices.Index([]byte("etaoinsrldcupmfhgbyvwkxjqz"), c)/3)
		case c == '/' || c == '.' || c == ':' || c == '_' || c == '-':
			sum += 5
		}
	}
	return sum
}

// candidates appends the patterns that the text might match, in the order of the
// catalogue.
func (x *index) candidates(text []byte, into []*pattern) []*pattern {
	from := len(into)
	x.each(text, func(p *pattern, _, _ int) {
		if !slices.Contains(into[from:], p) {
			into = append(into, p)
		}
	})
	slices.SortFunc(into[from:], func(a, b *pattern) int { return a.order - b.order })
	return into
}

// across are the patterns whose text reaches over the byte at seam.
func (x *index) across(text []byte, seam int) (found []*pattern) {
	x.each(text, func(p *pattern, from, to int) {
		if from < seam && seam < to {
			found = append(found, p)
		}
	})
	return found
}

// each calls for every literal that is in the text, with where it is.
func (x *index) each(text []byte, found func(p *pattern, from, to int)) {
	for i := 0; i+gram <= len(text); i++ {
		key := binary.LittleEndian.Uint32(text[i:])
		if !x.maybe[hash(key)] {
			continue
		}
		for _, e := range x.exact[key] {
			from := i - e.offset
			to := from + len(e.literal)
			if from >= 0 && to <= len(text) && string(text[from:to]) == e.literal {
				found(e.pattern, from, to)
			}
		}
	}
}

// expression is one with texts one of which is in all that it matches: most lines have none, and to
// look for them costs little.
type expression struct {
	*regexp.Regexp
	literals []string
}

// may is whether a text may match.
func (e expression) may(text string) bool {
	return slices.ContainsFunc(e.literals, func(literal string) bool { return strings.Contains(text, literal) })
}

// parse takes an expression that has a text of so many bytes in all that it matches.
func parse(text string, least int) (expression, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return expression{}, err
	}
	literals := required(parsed, least)
	if len(literals) == 0 {
		return expression{}, fmt.Errorf("%q has no text of %d bytes that is always there (case matters)", text, least)
	}
	return expression{regexp.MustCompile(text), literals}, nil
}

// required are literals one of which is in everything the expression matches; none
// where there is no such set of literals of so many bytes.
func required(re *syntax.Regexp, least int) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if literal := string(re.Rune); re.Flags&syntax.FoldCase == 0 && len(literal) >= least {
			return []string{literal}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0], least)
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0], least)
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			literals := required(sub, least)
			if literals == nil {
				return nil
			}
			all = append(all, literals...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if literals := required(sub, least); shortest(literals) > shortest(best) {
				best = literals
			}
		}
		return best
	}
	return nil
}

func shortest(literals []string) int {
	if len(literals) == 0 {
		return 0
	}
	return len(slices.MinFunc(literals, func(a, b string) int { return len(a) - len(b) }))
}
