package checks

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"preflight/facts"
)

// absentWord is the constraint that a fact is not there, and unlimitedWord the
// resource limit that is none.
const (
	absentWord    = "absent"
	unlimitedWord = "unlimited"
)

// constraint is what a value must be. All its bounds hold at once.
type constraint struct {
	text   string // as it was stated
	absent bool
	bounds []bound
}

// bound is one comparison. Text that reads as a version is compared as one.
type bound struct {
	kind    facts.Kind
	op      string
	text    string
	number  float64
	version *edition // nil for what is none
}

// begins is the comparison of a version that was stated without one: 3.11 takes 3.11.2.
// Of everything else a plain value is that value.
const begins = "begins"

// canBeUnlimited is whether -1 stands for no limit.
func canBeUnlimited(path string) bool {
	return strings.HasPrefix(path, string(facts.SectionLimits)+".")
}

var errNoVersion = errors.New("is no version")

// met is whether a value, in JSON and "" for none, is as stated. An error says
// that it cannot be compared.
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
	seen := readEdition(text)
	ordered := b.op != "==" && b.op != "!=" && b.op != begins
	switch {
	case !ordered && (b.version == nil || seen == nil):
		return b.within(strings.Compare(text, b.text)), nil
	case seen == nil:
		return false, errNoVersion
	case b.op == begins:
		return seen.begins(b.version), nil
	case !ordered:
		return seen.meets(b.version) == (b.op == "=="), nil
	}
	return b.within(seen.compare(b.version)), nil
}

// within is whether a value that compares so with the operand is as stated.
func (b bound) within(order int) bool {
	switch b.op {
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	case "!=":
		return order != 0
	}
	return order == 0
}

// further is what pip takes behind "==" to allow what the bound does: ".*" where numbers
// may follow those of a plain version.
func (b bound) further() string {
	if b.op == begins && len(b.version.release) < 3 && strings.Trim(b.text, "0123456789.") == "" {
		return ".*"
	}
	return ""
}

// unquoted is a fact's value without the quotes that JSON puts around text.
func unquoted(value string) string {
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		return text
	}
	return value
}
