// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"preflight/checks/compare"
	"preflight/facts"
)

// absentWord is the constraint that a fact is absent. unlimitedWord is the value of a resource
// limit that is switched off.
const (
	absentWord    = "absent"
	unlimitedWord = "unlimited"
)

// constraint states which values are allowed. A value must be within all bounds.
type constraint struct {
	text   string // the constraint as the policy states it
	absent bool
	bounds []bound
}

// bound is one comparison. If its text is a version, values are compared as versions.
type bound struct {
	kind    facts.Kind
	op      string
	text    string
	number  float64
	version *compare.Edition // nil if the text is not a version
}

// begins is the comparison for a version that was stated without an operator: 3.11 allows 3.11.2.
// Any other plain value allows only itself.
const begins = "begins"

// canBeUnlimited reports whether -1 means "no limit" for the fact with this path.
func canBeUnlimited(path string) bool {
	return strings.HasPrefix(path, string(facts.SectionLimits)+".")
}

var errNoVersion = errors.New("is not a version")

// met reports whether the constraint allows a value, which is JSON or "" for none. An error means
// that the value cannot be compared.
func (c constraint) met(value string, about facts.Description) (bool, error) {
	missing := value == "" || value == `""`
	if c.absent || missing {
		return c.absent && missing, nil
	}
	for _, b := range c.bounds {
		if holds, err := b.holds(value, about); err != nil || !holds {
			return false, err
		}
	}
	return true, nil
}

func (b bound) holds(value string, about facts.Description) (bool, error) {
	if b.kind == facts.Number {
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return false, err
		}
		if number < 0 && canBeUnlimited(about.Path) {
			number = math.Inf(1)
		}
		return b.within(cmp.Compare(number, b.number)), nil
	}
	text := unquoted(value)
	seen := compare.ReadEdition(text)
	ordered := b.op != "==" && b.op != "!=" && b.op != begins
	switch {
	case !ordered && (b.version == nil || seen == nil):
		return b.within(strings.Compare(text, b.text)), nil
	case seen == nil:
		return false, errNoVersion
	case b.op == begins:
		return seen.Begins(b.version), nil
	case !ordered:
		return seen.Meets(b.version) == (b.op == "=="), nil
	}
	return b.within(seen.Compare(b.version)), nil
}

func (b bound) within(order int) bool {
	return b.op == begins && order == 0 || compare.Takes(b.op, order)
}

// further returns the text that pip needs after "==" and the version to allow the same versions as
// the bound. The text is ".*" if more numbers may follow.
func (b bound) further() string {
	if b.op == begins && len(b.version.Release) < 3 && strings.Trim(b.text, "0123456789.") == "" {
		return ".*"
	}
	return ""
}

// unquoted returns a fact's value without the quotation marks of JSON.
func unquoted(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		return text
	}
	return value
}

// possible returns the reason why the constraint allows no value: two comparisons exclude each
// other, or the comparisons exclude all values that the fact can have. It returns nil if a value is
// possible.
func (c constraint) possible(about facts.Description) error {
	if err := c.contradiction(); err != nil {
		return err
	}
	switch about.Kind {
	case facts.Number:
		return c.possibleNumber(about)
	case facts.Truth:
		for _, word := range []string{"true", "false"} {
			if met, err := c.met(word, about); met || err != nil {
				return err
			}
		}
		return fmt.Errorf("%q is impossible: %s is true or false", c.text, about.Path)
	}
	return nil
}

func (c constraint) possibleNumber(about facts.Description) error {
	low, high := c.span(about)
	whole := isWhole(about)
	excluded := slices.ContainsFunc(c.bounds, func(b bound) bool { return b.op == "!=" && low == high && b.number == low })
	beyond := slices.ContainsFunc(c.bounds, func(b bound) bool {
		return b.op == "<" && !whole && b.number <= low || b.op == ">" && math.IsInf(b.number, 1)
	})
	switch {
	case low <= high && !excluded && !beyond:
		return nil
	case whole:
		return fmt.Errorf("%q is impossible: no whole number from %v on fits", c.text, leastOf(about))
	}
	return fmt.Errorf("%q is impossible: no number from %v on fits", c.text, leastOf(about))
}

// span returns the smallest and the largest number that the bounds allow.
func (c constraint) span(about facts.Description) (low, high float64) {
	low, high = leastOf(about), math.Inf(1)
	whole := isWhole(about)
	for _, b := range c.bounds {
		above, below := b.number, b.number
		switch {
		case whole && b.op == ">":
			above = math.Floor(b.number) + 1
		case whole && b.op == "<":
			below = math.Ceil(b.number) - 1
		case whole:
			above, below = math.Ceil(b.number), math.Floor(b.number)
		}
		if strings.Contains("> >= ==", b.op) {
			low = max(low, above)
		}
		if strings.Contains("< <= ==", b.op) {
			high = min(high, below)
		}
	}
	return low, high
}

// leastOf returns the smallest number that the fact can have. The kernel reports -1 for devices
// without a NUMA node. In a resource limit, -1 means "no limit" and counts as the largest number.
func leastOf(about facts.Description) float64 {
	if strings.HasSuffix(about.Path, ".numa_node") {
		return -1
	}
	return 0
}

// isWhole reports whether the fact has only whole numbers. Watts and the CPU quota of a cgroup may
// have fractions.
func isWhole(about facts.Description) bool {
	return about.Unit != "W" && about.Path != "host.cpu.quota"
}

func (c constraint) contradiction() error {
	for _, low := range c.bounds {
		for _, high := range c.bounds {
			order := low.against(high)
			meets := low.op == ">=" || low.op == "=="
			allows := high.op == "<=" || high.op == "=="
			switch {
			case strings.Contains("> >= ==", low.op) && strings.Contains("< <= ==", high.op) && (order > 0 || order == 0 && !(meets && allows)),
				low.op == "==" && high.op == "!=" && order == 0:
				return fmt.Errorf("%q is impossible: nothing is both %s%s and %s%s", c.text, low.op, low.text, high.op, high.text)
			}
		}
	}
	return nil
}

func (b bound) against(other bound) int {
	switch {
	case b.version != nil && other.version != nil:
		return b.version.Compare(other.version)
	case b.kind == facts.Number:
		return cmp.Compare(b.number, other.number)
	}
	return strings.Compare(b.text, other.text)
}
