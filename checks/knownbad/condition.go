// SPDX-License-Identifier: Apache-2.0

package knownbad

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"preflight/checks/compare"
)

// bound is one comparison of a condition: by an operator with a version, or without one with what
// stands for it, a version that it begins with or a word in which "*" is any text.
type bound struct {
	operator, text string
	edition        *compare.Edition
}

// read takes a condition apart, ">=2.28.3, <2.28.9": all that it says holds at once.
func read(condition string) (bounds []bound, err error) {
	for text := range strings.SplitSeq(condition, ",") {
		operator, operand := compare.CutOperator(strings.TrimSpace(text))
		b := bound{operator, operand, compare.ReadEdition(operand)}
		_, badPattern := path.Match(b.text, "")
		switch {
		case b.text == "":
			return nil, fmt.Errorf("%q compares with nothing", condition)
		case b.operator != "" && b.edition == nil:
			return nil, fmt.Errorf("%q is no version to compare with", b.text)
		case badPattern != nil:
			return nil, fmt.Errorf("%q: %w", b.text, badPattern)
		}
		bounds = append(bounds, b)
	}
	return bounds, nil
}

// holds is whether a value is as it says; one that is no version is in no order.
func (b bound) holds(value string) bool {
	edition := compare.ReadEdition(value)
	switch {
	case b.operator == "" && b.edition != nil && edition != nil:
		return edition.Begins(b.edition)
	case b.operator == "":
		match, _ := path.Match(b.text, strings.ReplaceAll(value, "/", " ")) // a slash is a letter here like any other
		return match
	case edition == nil:
		return false
	}
	return compare.Takes(b.operator, edition.Compare(b.edition))
}

// anyIs is whether one of the values is all that a condition says.
func anyIs(values []string, bounds []bound) bool {
	return slices.ContainsFunc(values, func(value string) bool {
		return !slices.ContainsFunc(bounds, func(b bound) bool { return !b.holds(value) })
	})
}
