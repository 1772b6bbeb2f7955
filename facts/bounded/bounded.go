// SPDX-License-Identifier: Apache-2.0

// Package bounded holds texts of JSON to what may be made of them.
//
// A limit in bytes bounds little: two of them ("{}") become some hundred of memory, and as
// many again in everything that is then said of them. So values are counted, before any of
// them is decoded.
//
// It refuses to decode, and to know what the values mean. That a text is JSON at all is its
// decoder's to say.
package bounded

import (
	"errors"
	"fmt"
)

const (
	// MaxDepth is how many lists and objects may be inside each other: facts have eight.
	MaxDepth = 32
	// MaxEntries is how many one list or object may have: one for every node of the
	// largest fleet, and no machine has as many of anything.
	MaxEntries = 1 << 14
	// MaxText is how many bytes one text may have: as many as Linux gives to two arguments
	// of a program.
	MaxText = 1 << 18
	// valuesOfObject is what an object counts for: one that says nothing takes as much
	// memory as one that says everything.
	valuesOfObject = 8
)

// errTooMany is without a number: what may still be in a text depends on those before it.
var errTooMany = errors.New("too many values")

// Check returns how many of so many values (texts, numbers and lists are one, objects
// several, and what they hold besides) a text leaves for others. The error says what it has
// too much of.
func Check(text []byte, values int) (left int, err error) {
	var (
		entries  [MaxDepth + 1]int // behind the first, of what is open at each depth
		depth    int
		total    = 1
		inString = -1 // where it began
	)
	for i := 0; i < len(text); i++ {
		if inString >= 0 {
			switch text[i] {
			case '\\':
				i++
			case '"':
				if size := i - inString; size > MaxText {
					return values, fmt.Errorf("a text of %d bytes, of at most %d", size, MaxText)
				}
				inString = -1
			}
			continue
		}
		switch text[i] {
		case '"':
			inString = i
		case '{', '[':
			if depth++; depth > MaxDepth {
				return values, fmt.Errorf("more than %d lists inside each other", MaxDepth)
			}
			entries[depth] = 0
			total++
			if text[i] == '{' {
				total += valuesOfObject - 1
			}
		case '}', ']':
			depth = max(depth-1, 0) // of a text that is no JSON
		case ',':
			total++
			if entries[depth]++; entries[depth] >= MaxEntries {
				return values, fmt.Errorf("a list of more than %d entries", MaxEntries)
			}
		}
		if total > values {
			return values, errTooMany
		}
	}
	return values - total, nil
}
