// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Edition is a version as packages, drivers and kernels write it: 2.5.1+cu124, 1.13.0a0, 2.0.post1,
// 550.54.15, 5.15.0-107-generic. Semantic versioning does not fit: it orders 5.15.0-107 before
// 5.15.0, and rejects .post1.
// Source: PEP 440; the build number of a kernel or a distribution marks a later release.
type Edition struct {
	Release []int // only the written numbers: 3.10.0 is more specific than 3.10
	pre     []int // the stage of a pre-release (alpha 0, beta 1, candidate 2) and its number; nil for none
	post    []int // the build number of a release, such as 107; nil for none
	dev     []int // the number of a development release; nil for none
	local   string
	tail    string // the rest, such as "-generic", which has no order
}

var editionText = regexp.MustCompile(`^[vV]?(?P<release>\d+(?:\.\d+)*)` +
	`(?:[-_.]?(?P<stage>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<trial>\d*))?` +
	`(?:-(?P<build>\d+(?:\.\d+)*)\b|[-_.]?(?P<post>post[-_.]?\d*))?` +
	`(?:[-_.]?(?P<dev>dev[-_.]?\d*))?` +
	`(?:\+(?P<local>[A-Za-z0-9._-]+))?` +
	`(?P<tail>[-_.~].*)?$`)

// Operators lists the operators of a comparison. An operator comes before any operator that is a
// prefix of it.
var Operators = []string{">=", "<=", "==", "!=", ">", "<"}

// orders lists, for each operator, the results of a comparison that satisfy it.
var orders = map[string][]int{">=": {0, 1}, "<=": {-1, 0}, ">": {1}, "<": {-1}, "!=": {-1, 1}, "==": {0}}

// CutOperator splits a comparison into its leading operator, which is "" if there is none, and the
// rest.
func CutOperator(comparison string) (operator, operand string) {
	for _, each := range Operators {
		if rest, begins := strings.CutPrefix(comparison, each); begins {
			return each, strings.TrimSpace(rest)
		}
	}
	return "", comparison
}

// Takes reports whether the operator accepts a value. order is the result of comparing the value
// with the operand: -1, 0 or 1.
func Takes(operator string, order int) bool { return slices.Contains(orders[operator], order) }

// ReadEdition parses a version. It returns nil if the text is not a version.
func ReadEdition(text string) *Edition {
	match := editionText.FindStringSubmatch(text)
	if match == nil {
		return nil
	}
	part := func(name string) string { return match[editionText.SubexpIndex(name)] }
	numbered := true
	numbers := func(text string) (all []int) {
		for digits := range strings.SplitSeq(text, ".") {
			number, err := strconv.Atoi(cmp.Or(digits, "0"))
			numbered = numbered && err == nil
			all = append(all, number)
		}
		return all
	}
	e := &Edition{Release: numbers(part("release")), local: part("local"), tail: part("tail")}
	if stage := part("stage"); stage != "" {
		rank := map[byte]int{'a': 0, 'b': 1}
		at, early := rank[stage[0]]
		if !early {
			at = 2
		}
		e.pre = append([]int{at}, numbers(part("trial"))...)
	}
	if build, post := part("build"), part("post"); build != "" {
		e.post = numbers(build)
	} else if post != "" {
		e.post = numbers(strings.TrimLeft(post, "post-_."))
	}
	if dev := part("dev"); dev != "" {
		e.dev = numbers(strings.TrimLeft(dev, "dev-_."))
	}
	if !numbered {
		return nil
	}
	return e
}

// Compare orders two versions. Labels of a build such as "+cu124" and "-generic" have no order.
// Numbers that are not written count as 0.
func (e *Edition) Compare(other *Edition) int {
	return cmp.Or(
		slices.Compare(shortest(e.Release), shortest(other.Release)),
		slices.Compare(e.stage(), other.stage()),
		slices.Compare(e.post, other.post),
		compareLast(e.dev, other.dev),
	)
}

func shortest(release []int) []int {
	for len(release) > 1 && release[len(release)-1] == 0 {
		release = release[:len(release)-1]
	}
	return release
}

// stage returns the maturity of a release: in development, pre-release or released.
func (e *Edition) stage() []int {
	switch {
	case e.pre != nil:
		return e.pre
	case e.post == nil && e.dev != nil:
		return []int{-1}
	}
	return []int{3}
}

// compareLast compares two numbers. nil counts as greater than every number.
func compareLast(a, b []int) int {
	if (a == nil) != (b == nil) {
		return cmp.Compare(len(b), len(a))
	}
	return slices.Compare(a, b)
}

// Meets reports whether a version equals the stated version, as precisely as the stated version is
// written.
func (e *Edition) Meets(stated *Edition) bool { return e.Compare(stated) == 0 && e.builtAs(stated) }

// Begins reports whether a version belongs to the stated version: 3.11.2 belongs to 3.11, and
// 6.8.0-45-generic to 6.8.0. A pre-release comes before its release, so it belongs only to itself.
func (e *Edition) Begins(stated *Edition) bool {
	switch {
	case stated.pre != nil || stated.dev != nil:
		return e.Meets(stated)
	case e.pre != nil || e.dev != nil || !e.builtAs(stated):
		return false
	case stated.post != nil:
		return slices.Equal(shortest(e.Release), shortest(stated.Release)) && leads(stated.post, e.post)
	}
	return leads(stated.Release, e.Release)
}

// leads reports whether numbers begins with first. Numbers that are not written count as 0.
func leads(first, numbers []int) bool {
	for i, number := range first {
		if i < len(numbers) && numbers[i] != number || i >= len(numbers) && number != 0 {
			return false
		}
	}
	return true
}

func (e *Edition) builtAs(stated *Edition) bool {
	return (stated.local == "" || e.local == stated.local) && (stated.tail == "" || e.tail == stated.tail)
}
