// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks/compare"
	"preflight/facts"
)

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
