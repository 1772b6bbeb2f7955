// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Edition is a version as packages, drivers and kernels write it: 2.5.1+cu124,
// 1.13.0a0, 2.0.post1, 550.54.15, 5.15.0-107-generic. A semantic version has another
// order: to it 5.15.0-107 comes before 5.15.0, and .post1 is no version.
// Source: PEP 440; a kernel's and a distribution's build number is a later release.
type Edition struct {
	Release []int // as many as are written: 3.10.0 says more than 3.10
	pre     []int // alpha 0, beta 1, candidate 2, and its number; nil for none
	post    []int // the later build of one release, 107; nil for none
	dev     []int // nil for none
	local   string
	tail    string // "-generic": says nothing of older or newer
}

var editionText = regexp.MustCompile(`^[vV]?(?P<release>\d+(?:\.\d+)*)` +
	`(?:[-_.]?(?P<stage>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<trial>\d*))?` +
	`(?:-(?P<build>\d+(?:\.\d+)*)\b|[-_.]?(?P<post>post[-_.]?\d*))?` +
	`(?:[-_.]?(?P<dev>dev[-_.]?\d*))?` +
	`(?:\+(?P<local>[A-Za-z0-9._-]+))?` +
	`(?P<tail>[-_.~].*)?$`)

// Operators are those of a comparison, a longer one before what it begins with.
var Operators = []string{">=", "<=", "==", "!=", ">", "<"}

// orders are how a value may compare with what follows each operator.
var orders = map[string][]int{">=": {0, 1}, "<=": {-1, 0}, ">": {1}, "<": {-1}, "!=": {-1, 1}, "==": {0}}

// CutOperator returns the operator that a comparison begins with, "" for none, and what follows it.
func CutOperator(comparison string) (operator, operand string) {
	for _, each := range Operators {
		if rest, begins := strings.CutPrefix(comparison, each); begins {
			return each, strings.TrimSpace(rest)
		}
	}
	return "", comparison
}

// Takes returns whether an operator is met by a value that compares so (-1, 0 or 1) with what follows it.
func Takes(operator string, order int) bool { return slices.Contains(orders[operator], order) }

// ReadEdition is nil for text that is no version.
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

// Compare orders two versions; builds ("+cu124", "-generic") have no order, and numbers
// that are not written are zeros.
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

// stage is what a release has come to: in development, on trial, out.
func (e *Edition) stage() []int {
	switch {
	case e.pre != nil:
		return e.pre
	case e.post == nil && e.dev != nil:
		return []int{-1}
	}
	return []int{3}
}

// compareLast orders numbers of which none is the last.
func compareLast(a, b []int) int {
	if (a == nil) != (b == nil) {
		return cmp.Compare(len(b), len(a))
	}
	return slices.Compare(a, b)
}

// Meets is whether a version is the one that is stated: as exact as it is stated.
func (e *Edition) Meets(stated *Edition) bool { return e.Compare(stated) == 0 && e.builtAs(stated) }

// Begins is whether a version is one of those that what is stated stands for: 3.11 for
// 3.11.2, and 6.8.0 for 6.8.0-45-generic. Releases on trial come before them all, and
// stand for themselves alone.
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

// leads is whether numbers begin with others; those that are not written are zeros.
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
