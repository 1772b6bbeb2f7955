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

	"github.com/dustin/go-humanize"

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

// readConstraint parses a constraint on a fact: ">=570.86", ">=2.4, <2.6", "16GiB", "absent" or a
// plain value.
func readConstraint(text string, about facts.Description) (constraint, error) {
	c := constraint{text: text}
	if text == absentWord {
		c.absent = true
		return c, nil
	}
	if about.Kind == facts.List {
		return c, fmt.Errorf("%s is a list: only %q can be expected of it", about.Path, absentWord)
	}
	parts := []string{text}
	if isComparison(text) {
		parts = strings.Split(text, ",")
	}
	for _, part := range parts {
		b, err := readBound(strings.TrimSpace(part), about)
		if err != nil {
			return c, err
		}
		c.bounds = append(c.bounds, b)
	}
	return c, c.possible(about)
}

func isComparison(text string) bool {
	operator, _ := compare.CutOperator(text)
	return operator != ""
}

func readBound(text string, about facts.Description) (bound, error) {
	b := bound{kind: about.Kind}
	b.op, b.text = compare.CutOperator(text)
	stated := b.op != ""
	if !stated {
		b.op = "=="
	}
	ordered := b.op != "==" && b.op != "!="
	switch {
	case b.text == "":
		return b, fmt.Errorf("%q has no value after the operator", text)
	case strings.ContainsAny(b.text[:1], "=<>!~^"):
		return b, fmt.Errorf("%q has an unknown operator: use one of %s", text, strings.Join(compare.Operators, " "))
	case about.Kind == facts.Text && strings.HasSuffix(b.text, ".*"):
		return b, fmt.Errorf("%q: * is not allowed in a value: use a range such as \">=3, <4\"", text)
	case stated && b.text == absentWord:
		return b, fmt.Errorf("%q: write %q without an operator", text, absentWord)
	}
	switch about.Kind {
	case facts.Number:
		number, err := readNumber(b.text, about)
		b.number = number
		return b, err
	case facts.Truth:
		if ordered || b.text != "true" && b.text != "false" {
			return b, fmt.Errorf("%q: %s must be true or false", text, about.Path)
		}
	default:
		b.version = compare.ReadEdition(b.text)
		switch {
		case ordered && b.version == nil:
			return b, fmt.Errorf("%q: %q is not a version, and only versions can be ordered", text, b.text)
		case !stated && b.version != nil:
			b.op = begins
		}
	}
	return b, nil
}

// readNumber parses a number in the unit of the fact, such as "9000", "16GiB" or "100Gbit/s".
func readNumber(text string, about facts.Description) (float64, error) {
	if text == unlimitedWord && canBeUnlimited(about.Path) {
		return math.Inf(1), nil
	}
	number, err := strconv.ParseFloat(text, 64)
	plain := err == nil && !math.IsNaN(number) && !math.IsInf(number, 0)
	if counted := about.Unit == "bytes" && number > 0; plain && !counted {
		return number, nil
	}
	switch about.Unit {
	case "bytes":
		size, err := ReadSize(text)
		return float64(size), err
	case "bit/s":
		return ReadBitRate(text)
	}
	return 0, fmt.Errorf("%q is not a number, but %s is one", text, about.Path)
}

// ReadSize returns the number of bytes of a size such as "512MiB". A number without a unit is in
// bytes. ReadSize refuses such a number below 1024, because the unit was probably forgotten.
func ReadSize(text string) (int64, error) {
	size, err := humanize.ParseBytes(text)
	if err != nil || size > math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size: use a size such as 512MiB or 16GiB", text)
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && size > 0 && size < 1024 {
		return 0, fmt.Errorf("%s has no unit: write %sGiB, or %sB for bytes", text, text, text)
	}
	return int64(size), nil
}

// ReadBitRate returns a rate in bits per second. The text may state the rate in bits or in bytes
// per second.
func ReadBitRate(text string) (float64, error) {
	rate, is := inUnits(text, map[string]float64{"bit/s": 1, "B/s": 8})
	if !is {
		return 0, fmt.Errorf("%q is not a rate: use a rate such as 100Gbit/s or 12.5GB/s", text)
	}
	return rate, nil
}

// ReadComputeRate returns a rate in operations per second. An addition and a multiplication count
// as one operation each, for all types of numbers.
func ReadComputeRate(text string) (float64, error) {
	rate, is := inUnits(text, map[string]float64{"op/s": 1, "FLOP/s": 1, "FLOPS": 1})
	if !is {
		return 0, fmt.Errorf("%q is not a compute rate: use a rate such as 600TFLOP/s or 600Top/s", text)
	}
	return rate, nil
}

// inUnits parses a number that is followed by one of the units. The unit may have an SI prefix.
func inUnits(text string, units map[string]float64) (number float64, is bool) {
	number, unit, err := humanize.ParseSI(text)
	return number * units[unit], err == nil && units[unit] > 0 && number >= 0
}
