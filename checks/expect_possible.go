package checks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"preflight/facts"
)

// possible says why no value is as stated: two comparisons exclude each other, or the
// numbers and words that the fact can have.
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
		return fmt.Errorf("%q cannot be: %s is true or false", c.text, about.Path)
	}
	return nil
}

// possibleNumber narrows what the fact can be down, bound by bound.
func (c constraint) possibleNumber(about facts.Description) error {
	low, high := leastOf(about), math.Inf(1)
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
	excluded := slices.ContainsFunc(c.bounds, func(b bound) bool { return b.op == "!=" && low == high && b.number == low })
	beyond := slices.ContainsFunc(c.bounds, func(b bound) bool {
		return b.op == "<" && !whole && b.number <= low || b.op == ">" && math.IsInf(b.number, 1)
	})
	switch {
	case low <= high && !excluded && !beyond:
		return nil
	case whole:
		return fmt.Errorf("%q cannot be: no whole number from %v on is so", c.text, leastOf(about))
	}
	return fmt.Errorf("%q cannot be: no number from %v on is so", c.text, leastOf(about))
}

// leastOf is the least that a number can be. The kernel says -1 of what hangs at no NUMA
// node; a limit that is none is the greatest number of all, whatever it is written as.
func leastOf(about facts.Description) float64 {
	if strings.HasSuffix(about.Path, ".numa_node") {
		return -1
	}
	return 0
}

// isWhole is whether there is nothing between a number of the fact and the next one. Of
// watts and of a cgroup's share of processors there is.
func isWhole(about facts.Description) bool {
	return about.Unit != "W" && about.Path != "host.cpu.quota"
}

// contradiction finds two bounds that no value is within.
func (c constraint) contradiction() error {
	for _, low := range c.bounds {
		for _, high := range c.bounds {
			order := low.against(high)
			meets := low.op == ">=" || low.op == "=="
			allows := high.op == "<=" || high.op == "=="
			switch {
			case strings.Contains("> >= ==", low.op) && strings.Contains("< <= ==", high.op) && (order > 0 || order == 0 && !(meets && allows)),
				low.op == "==" && high.op == "!=" && order == 0:
				return fmt.Errorf("%q cannot be: nothing is %s%s and %s%s", c.text, low.op, low.text, high.op, high.text)
			}
		}
	}
	return nil
}

// against orders the operands of two bounds of one constraint.
func (b bound) against(other bound) int {
	switch {
	case b.version != nil && other.version != nil:
		return b.version.compare(other.version)
	case b.kind == facts.Number:
		return cmp.Compare(b.number, other.number)
	}
	return strings.Compare(b.text, other.text)
}
