// SPDX-License-Identifier: Apache-2.0

package literal

import (
	"encoding/binary"
	"math"
	"slices"
)

// Gram is the number of bytes of a literal that one look-up in an Index compares. Literals cannot be
// shorter.
const Gram = 4

// Index finds which of many literals a text contains, with one table look-up for each byte. V is what
// the literals stand for.
type Index[V any] struct {
	rare     grams // the rarest gram of each literal
	all      grams // all grams of each literal, to find the literals that span a seam
	literals []literalOf[V]
	numbers  map[string]int // numbers of the literals
}

type literalOf[V any] struct {
	text   string
	values []V
}

// grams finds literals by some of their grams. It is small, so that it fits into the cache of a
// processor.
type grams struct {
	maybe [1 << hashed / 64]uint64 // bits: whether some literal contains a gram, by the hash of the gram
	list  [1 << hashed / 4]uint16  // numbers of lists, by the hash of the gram, without its last two bits
	lists [][]place
}

const hashed = 18 // bits of a hash

// place is the place of a gram in a literal.
type place struct{ literal, offset uint16 }

func hash(text []byte) uint32 {
	return binary.LittleEndian.Uint32(text) * 2654435761 >> (32 - hashed)
}

// at returns the list of a gram.
func (g *grams) at(text string) *[]place {
	key := hash([]byte(text))
	g.maybe[key/64] |= 1 << (key % 64)
	if g.list[key/4] == 0 {
		g.lists = append(g.lists, nil)
		g.list[key/4] = uint16(len(g.lists))
	}
	return &g.lists[g.list[key/4]-1]
}

// Add adds a literal. Up to "torn" bytes of it may be missing at its start or its end.
func (x *Index[V]) Add(literal string, torn int, value V) {
	if number, known := x.numbers[literal]; known {
		x.literals[number].values = append(x.literals[number].values, value)
		return
	}
	if x.numbers == nil {
		x.numbers = map[string]int{}
	}
	number := len(x.literals)
	x.numbers[literal] = number
	x.literals = append(x.literals, literalOf[V]{literal, []V{value}})
	best, least := 0, math.MaxInt
	torn = min(torn, (len(literal)-Gram)/2)
	for offset := range len(literal) - Gram + 1 {
		list := x.all.at(literal[offset:])
		*list = append(*list, place{uint16(number), uint16(offset)})
		cost := commonness(literal[offset:offset+Gram]) + len(*list)
		if cost < least && offset >= torn && offset <= len(literal)-Gram-torn {
			best, least = offset, cost
		}
	}
	list := x.rare.at(literal[best:])
	*list = append(*list, place{uint16(number), uint16(best)})
}

// commonness guesses how often a gram occurs. It assumes that digits, spaces and the frequent
// letters of English occur often, and capitals and most signs rarely.
func commonness(text string) int {
	sum := 0
	for _, c := range []byte(text) {
		switch {
		case c >= '0' && c <= '9':
			sum += 12
		case c == ' ':
			sum += 10
		case c >= 'a' && c <= 'z':
			sum += 8 - min(6, slices.Index([]byte("etaoinsrldcupmfhgbyvwkxjqz"), c)/3)
		case c == '/' || c == '.' || c == ':' || c == '_' || c == '-':
			sum += 5
		}
	}
	return sum
}

// Each calls found for every literal in the text, with its position. At most "torn" bytes of a literal
// may be missing before the text or after it.
func (x *Index[V]) Each(text []byte, torn int, found func(value V, from, to int)) {
	x.each(&x.rare, text, 0, len(text)-Gram, torn, found)
}

// Across calls found for every literal that begins before the byte at seam and ends after it. It may
// find a literal several times.
func (x *Index[V]) Across(text []byte, seam int, found func(value V)) {
	x.each(&x.all, text, max(0, seam-Gram+1), min(seam-1, len(text)-Gram), 0, func(value V, _, _ int) { found(value) })
}

// each looks for literals with a gram between two positions.
func (x *Index[V]) each(g *grams, text []byte, first, last, torn int, found func(value V, from, to int)) {
	for i := first; i <= last; i++ {
		key := hash(text[i:])
		if g.maybe[key/64]>>(key%64)&1 == 0 {
			continue
		}
		for _, one := range g.lists[g.list[key/4]-1] {
			literal := &x.literals[one.literal]
			from := i - int(one.offset)
			to := from + len(literal.text)
			before, after := max(0, -from), max(0, to-len(text))
			if before+after > torn || string(text[from+before:to-after]) != literal.text[before:len(literal.text)-after] {
				continue
			}
			for _, value := range literal.values {
				found(value, from, to)
			}
		}
	}
}
