// SPDX-License-Identifier: Apache-2.0

package literal

import (
	"encoding/binary"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// Set finds out which of several expressions match a text. It needs one or two table look-ups for
// each character, however many expressions there are. Package regexp needs twenty times as long. A
// Set is safe for concurrent use.
//
// It is a deterministic automaton whose states are built when a text first needs them, as in RE2
// (re2/dfa.cc).
type Set struct {
	table   atomic.Pointer[table]
	filled  atomic.Int32         // how often the table was full
	ascii   [utf8.RuneSelf]uint8 // the classes of ASCII characters
	bounds  []rune               // the first characters of the classes: no expression tells the characters of a class apart
	program []syntax.Inst        // the programs of all expressions. The Arg of a Match is the index of its expression.
	first   []uint32             // where the expressions begin
	starts  []uint32             // where the expressions begin that can match anywhere in the text
	looks   bool                 // some expression depends on the character before
	mutex   sync.Mutex           // guards the rest
	numbers map[string]int       // numbers of the states
	texts   []string
	slow    []*regexp.Regexp // the expressions, if the table was full too often
}

// table has a row for each state, with the next state for each class of characters.
type table struct {
	next   []atomic.Uint32 // the place of the next state's row. It is 0 if the state is not known yet, and has the bit special if there is more to say about it.
	states []state
}

// state is a set of positions in the expressions.
type state struct {
	before  rune     // stands for the last character
	pcs     []uint32 // what comes next
	matched []int    // the expressions that match the text before the last character
}

const (
	mostStates = 2000 // a full table is emptied
	mostFilled = 4    // then package regexp is used, because building states takes longer
	special    = 1 << 31
	end        = -1 // the character at both ends of a text
)

// NewSet compiles expressions.
func NewSet(texts ...string) (*Set, error) {
	s := &Set{texts: texts}
	bounds := []rune{0, '\n', '\n' + 1, '0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1}
	for i, text := range texts {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			return nil, err
		}
		offset := uint32(len(s.program))
		s.first = append(s.first, offset+uint32(program.Start))
		if program.StartCond()&syntax.EmptyBeginText == 0 {
			s.starts = append(s.starts, offset+uint32(program.Start))
		}
		for _, one := range program.Inst {
			one.Out += offset
			switch one.Op {
			case syntax.InstAlt, syntax.InstAltMatch:
				one.Arg += offset
			case syntax.InstMatch:
				one.Arg = uint32(i)
			case syntax.InstEmptyWidth:
				s.looks = s.looks || syntax.EmptyOp(one.Arg)&^(syntax.EmptyBeginText|syntax.EmptyEndText) != 0
			default:
				for i, r := range one.Rune {
					bounds = append(bounds, r+rune(i%2)) // pairs of a first and a last character
					for same := unicode.SimpleFold(r); len(one.Rune) == 1 && same != r; same = unicode.SimpleFold(same) {
						bounds = append(bounds, same, same+1)
					}
				}
				if len(one.Rune) == 1 {
					bounds = append(bounds, one.Rune[0]+1)
				}
			}
			s.program = append(s.program, one)
		}
	}
	slices.Sort(bounds)
	s.bounds = slices.Compact(bounds)
	for c := range s.ascii {
		s.ascii[c] = uint8(s.class(rune(c)))
	}
	s.restart()
	return s, nil
}

// restart forgets all states.
func (s *Set) restart() {
	s.numbers = map[string]int{}
	s.table.Store(s.newTable(8))
	s.number(state{}) // nothing leads to the start, and 0 is no place of a row
	s.number(state{end, s.first, nil})
}

func (s *Set) newTable(rows int) *table {
	return &table{make([]atomic.Uint32, rows*(len(s.bounds)+1)), make([]state, rows)}
}

// MustSet is NewSet for constant expressions. It panics if one is invalid.
func MustSet(texts ...string) *Set {
	s, err := NewSet(texts...)
	if err != nil {
		panic(err)
	}
	return s
}

func (s *Set) class(r rune) int {
	at, exact := slices.BinarySearch(s.bounds, r)
	if !exact {
		at--
	}
	return at
}

// Match reports whether any of the expressions matches.
func (s *Set) Match(text string) (matched bool) {
	if s.filled.Load() >= mostFilled {
		return slices.ContainsFunc(s.slow, func(one *regexp.Regexp) bool { return one.MatchString(text) })
	}
	s.each(text, func([]int, int) bool { matched = true; return false })
	return matched
}

// Ends stores for each expression where a match ends, the longest if the expression begins with ^. It
// does not change the entries of expressions that do not match.
func (s *Set) Ends(text string, ends []int) {
	if s.filled.Load() >= mostFilled {
		for i, one := range s.slow {
			if at := one.FindStringIndex(text); at != nil {
				ends[i] = at[1]
			}
		}
		return
	}
	s.each(text, func(matched []int, end int) bool {
		for _, i := range matched {
			ends[i] = end
		}
		return true
	})
}

// each calls found with the expressions that match, and where the match ends, until it returns false.
func (s *Set) each(text string, found func(matched []int, end int) bool) {
	t, width := s.table.Load(), uint32(len(s.bounds)+1)
	at := width
	for i, size := 0, 0; i <= len(text); i += size {
		class := len(s.bounds)
		if size = 1; i == len(text) {
		} else if c := text[i]; c < utf8.RuneSelf {
			class = int(s.ascii[c])
		} else {
			var r rune
			r, size = utf8.DecodeRuneInString(text[i:])
			class = s.class(r)
		}
		to := t.next[int(at)+class].Load()
		if to == 0 {
			t, to = s.step(t, int(at/width), class)
		}
		if at = to &^ special; to != at {
			if one := &t.states[at/width]; len(one.matched) > 0 && !found(one.matched, i) || len(one.pcs) == 0 {
				return
			}
		}
	}
}

// step builds the state after a character of a class, and returns its table and the place of its row.
func (s *Set) step(t *table, number, class int) (*table, uint32) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	from := t.states[number]
	r := rune(end)
	if class < len(s.bounds) {
		r = s.bounds[class]
	}
	to := state{before: r}
	seen := make([]bool, len(s.program))
	holds := syntax.EmptyOpContext(from.before, r)
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		switch one := &s.program[pc]; one.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(one.Out)
			visit(one.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(one.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(one.Arg)&^holds == 0 {
				visit(one.Out)
			}
		case syntax.InstMatch:
			to.matched = append(to.matched, int(one.Arg))
		case syntax.InstFail:
		default:
			if r != end && one.MatchRune(r) {
				to.pcs = append(to.pcs, one.Out)
			}
		}
	}
	for _, pc := range from.pcs {
		visit(pc)
	}
	to.pcs = append(to.pcs, s.starts...)
	if len(s.numbers) >= mostStates {
		s.restart()
		if s.slow == nil && s.filled.Load() == mostFilled-1 {
			for _, text := range s.texts {
				one := regexp.MustCompile(text)
				one.Longest()
				s.slow = append(s.slow, one)
			}
		}
		s.filled.Add(1)
	}
	next := s.number(to)
	now, width := s.table.Load(), len(s.bounds)+1
	place := uint32(next * width)
	if len(now.states[next].pcs) == 0 || len(now.states[next].matched) > 0 {
		place |= special
	}
	if number < len(now.states) && slices.Equal(now.states[number].pcs, from.pcs) && now.states[number].before == from.before { // otherwise the states have been forgotten
		now.next[number*width+class].Store(place)
	}
	return now, place
}

// number returns the number of a state. It adds the state to the table if it is new.
func (s *Set) number(one state) int {
	switch {
	case one.before == end || one.before == '\n' && s.looks:
	case syntax.IsWordChar(one.before) && s.looks:
		one.before = 'a'
	default:
		one.before = ' '
	}
	slices.Sort(one.pcs)
	one.pcs = slices.Compact(one.pcs)
	slices.Sort(one.matched)
	key := binary.LittleEndian.AppendUint32(nil, uint32(one.before))
	for _, pc := range one.pcs {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	for _, i := range one.matched {
		key = binary.LittleEndian.AppendUint32(key, ^uint32(i))
	}
	number, known := s.numbers[string(key)]
	if !known {
		number = len(s.numbers)
		s.numbers[string(key)] = number
		t := s.table.Load()
		if number == len(t.states) {
			more := s.newTable(2 * number)
			copy(more.states, t.states)
			for i := range t.next {
				more.next[i].Store(t.next[i].Load())
			}
			s.table.Store(more)
			t = more
		}
		t.states[number] = one
	}
	return number
}
