// SPDX-License-Identifier: Apache-2.0

package knownbad

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks/compare"
)

// bound is one comparison of a condition. It is an operator with a version. Without an operator it
// is a version prefix, or a word in which "*" matches any text.
type bound struct {
	operator, text string
	edition        *compare.Edition
}

// read parses a condition such as ">=2.28.3, <2.28.9". All comparisons of the condition must hold
// at once.
func read(condition string) (bounds []bound, err error) {
	for text := range strings.SplitSeq(condition, ",") {
		operator, operand := compare.CutOperator(strings.TrimSpace(text))
		b := bound{operator, operand, compare.ReadEdition(operand)}
		_, badPattern := path.Match(b.text, "")
		switch {
		case b.text == "":
			return nil, fmt.Errorf("%q compares with nothing", condition)
		case b.operator != "" && b.edition == nil:
			return nil, fmt.Errorf("%q is not a version", b.text)
		case badPattern != nil:
			return nil, fmt.Errorf("%q: %w", b.text, badPattern)
		}
		bounds = append(bounds, b)
	}
	return bounds, nil
}

// holds reports whether a value satisfies the bound. A value that is not a version satisfies no
// operator.
func (b bound) holds(value string) bool {
	edition := compare.ReadEdition(value)
	switch {
	case b.operator == "" && b.edition != nil && edition != nil:
		return edition.Begins(b.edition)
	case b.operator == "":
		match, _ := path.Match(b.text, strings.ReplaceAll(value, "/", " ")) // path.Match treats a slash specially
		return match
	case edition == nil:
		return false
	}
	return compare.Takes(b.operator, edition.Compare(b.edition))
}

// anyIs reports whether one of the values satisfies all bounds.
func anyIs(values []string, bounds []bound) bool {
	return slices.ContainsFunc(values, func(value string) bool {
		return !slices.ContainsFunc(bounds, func(b bound) bool { return !b.holds(value) })
	})
}
