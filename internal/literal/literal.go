// SPDX-License-Identifier: Apache-2.0

// Package literal searches a text for very many regular expressions at once. It finds the literal
// texts that every match of an expression contains. An [Index] finds such texts in a line. A [Set]
// finds out which of several expressions match, much faster than package regexp.
package literal

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
)

// Expression is a regular expression with a list of literals. Every match contains at least one of
// the literals. Searching for the literals is cheap, and most lines contain none.
type Expression struct {
	*regexp.Regexp
	set          func() *Set
	Literals     []string
	Starts, Ends []string // literals with which a match can begin and end
}

// Parse compiles an expression. It returns an error unless every match contains a literal of at
// least "least" bytes.
func Parse(text string, least int) (Expression, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return Expression{}, err
	}
	literals := required(parsed, least)
	if len(literals) == 0 {
		return Expression{}, fmt.Errorf("%q has no text of %d bytes that is always there (case matters)", text, least)
	}
	set := sync.OnceValue(func() *Set { return MustSet(text) }) // most are never needed
	return Expression{regexp.MustCompile(text), set, literals, edges(parsed, false), edges(parsed, true)}, nil
}

// MatchString reports whether a text matches.
func (e Expression) MatchString(text string) bool { return e.set().Match(text) }

// required returns a set of literals such that every match contains at least one of them. It
// returns nil if there is no such set with literals of at least "least" bytes.
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

// edges returns the literals with which a match can begin, or end if last is set.
func edges(re *syntax.Regexp, last bool) (all []string) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return []string{string(re.Rune)}
		}
	case syntax.OpCapture:
		return edges(re.Sub[0], last)
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary:
		return []string{""}
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			all = append(all, edges(sub, last)...)
		}
	case syntax.OpConcat:
		subs := slices.Clone(re.Sub)
		if last {
			slices.Reverse(subs)
		}
		for i, sub := range subs {
			switch sub.Op {
			case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpStar:
				if i+1 == len(subs) {
					all = append(all, "")
				}
				continue
			case syntax.OpQuest:
				all = append(all, edges(sub.Sub[0], last)...)
				continue
			}
			inner := []string{""} // what follows within, if it is literal too
			if i+1 < len(subs) && (subs[i+1].Op == syntax.OpLiteral || sub.Op == syntax.OpLiteral) {
				inner = append(inner, edges(subs[i+1], last)...)
			}
			for _, edge := range edges(sub, last) {
				for _, more := range inner {
					if last {
						all = append(all, more+edge)
					} else {
						all = append(all, edge+more)
					}
				}
			}
			return all
		}
	}
	return all
}

func shortest(literals []string) int {
	if len(literals) == 0 {
		return 0
	}
	return len(slices.MinFunc(literals, func(a, b string) int { return len(a) - len(b) }))
}
