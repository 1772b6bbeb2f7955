// SPDX-License-Identifier: Apache-2.0

// Package pickle reads what Python's pickle wrote, as its pickletools would: it names no class,
// calls nothing and imports nothing. Whatever a pickle wants made of a class is an object with the
// fields that it was built with, and what it wants called is its arguments, of one that is an
// object this.
//
// Source: CPython, Lib/pickle.py, of the protocols 2 to 5, as far as the states of torchrun's
// launchers and the dumps of torch's flight recorder use them.
package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Object is whatever a pickle holds that is no number or text: a mapping, the members of a set
// as its keys, or an instance, whose fields are those of the mapping it was built with.
type Object struct {
	Keys, Values []any
}

// Field is the value of a mapping or of an instance by its name; nil where there is none.
func (o *Object) Field(name string) any {
	for i, key := range o.Keys {
		if key == name && i < len(o.Values) {
			return o.Values[i]
		}
	}
	return nil
}

// mark is where the items of a list, set or mapping begin.
type mark struct{}

// mostItems bounds what a pickle may have begun and not put together, and what it may recall.
const mostItems = 1 << 20

// Read is the one value that a pickle is of: nil, a bool, int64, float64, string or *Object. What it
// recalls is the same Object again, which may hold itself.
func Read(text []byte) (any, error) {
	m := machine{text: text}
	for m.err == nil {
		op := m.take(1)
		if m.err != nil {
			break
		}
		if op[0] == '.' {
			top := m.pop()
			return top, m.err
		}
		m.step(op[0])
		if len(m.stack)+len(m.memo) > mostItems {
			m.err = errors.New("a pickle of too many items")
		}
	}
	return nil, m.err
}

// machine is the stack that a pickle is a program for.
type machine struct {
	text  []byte
	stack []any
	memo  []any
	err   error
}

func (m *machine) take(n uint64) []byte {
	if n > uint64(len(m.text)) {
		if m.err == nil {
			m.err = errors.New("a pickle that breaks off")
		}
		return make([]byte, min(n, 8))
	}
	taken := m.text[:n]
	m.text = m.text[n:]
	return taken
}

// length is a number of so many bytes, the lowest first.
func (m *machine) length(size uint64) uint64 {
	var whole [8]byte
	copy(whole[:], m.take(size))
	return binary.LittleEndian.Uint64(whole[:])
}

func (m *machine) push(value any) { m.stack = append(m.stack, value) }

func (m *machine) pop() any {
	if len(m.stack) == 0 {
		if m.err == nil {
			m.err = errors.New("a pickle that takes more than it has")
		}
		return nil
	}
	top := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return top
}

// top is what is on the stack, as what can be built on.
func (m *machine) top() *Object {
	below := m.pop()
	m.push(below)
	if built, is := below.(*Object); is {
		return built
	}
	return &Object{} // of a class, which is nothing here
}

// items are those down to the mark.
func (m *machine) items() []any {
	for at := len(m.stack) - 1; at >= 0; at-- {
		if _, is := m.stack[at].(mark); is {
			items := m.stack[at+1:]
			m.stack = m.stack[:at]
			return items
		}
	}
	if m.err == nil {
		m.err = errors.New("a pickle without a mark")
	}
	return nil
}

func (m *machine) recall(at uint64) {
	if at >= uint64(len(m.memo)) {
		m.err = errors.New("a pickle that recalls what was not there")
		return
	}
	m.push(m.memo[at])
}

func (m *machine) keep(at uint64) {
	if at != uint64(len(m.memo)) { // as every pickler counts
		m.err = errors.New("a pickle that keeps out of order")
		return
	}
	top := m.pop()
	m.push(top)
	m.memo = append(m.memo, top)
}

func (m *machine) step(op byte) {
	switch op {
	case 0x80: // PROTO
		m.take(1)
	case 0x95: // FRAME
		m.take(8)
	case 'N':
		m.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		m.push(op == 0x88)
	case 'K':
		m.push(int64(m.length(1)))
	case 'M':
		m.push(int64(m.length(2)))
	case 'J':
		m.push(int64(int32(m.length(4))))
	case 0x8a: // LONG1
		n := m.length(1)
		m.push(int64(m.length(min(n, 8))))
	case 'G': // BINFLOAT
		m.push(math.Float64frombits(binary.BigEndian.Uint64(m.take(8))))
	case 0x8c, 'X', 0x8d: // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
		m.push(string(m.take(m.length(map[byte]uint64{0x8c: 1, 'X': 4, 0x8d: 8}[op]))))
	case 'C', 'U', 'B', 'T': // SHORT_BINBYTES, SHORT_BINSTRING, BINBYTES, BINSTRING
		m.push(string(m.take(m.length(map[byte]uint64{'C': 1, 'U': 1, 'B': 4, 'T': 4}[op]))))
	case '(':
		m.push(mark{})
	case ')', '}', ']', 0x8f: // EMPTY_TUPLE, EMPTY_DICT, EMPTY_LIST, EMPTY_SET
		m.push(&Object{})
	case 't': // TUPLE
		m.push(&Object{Keys: m.items()})
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		var items []any
		for range op - 0x84 {
			items = append([]any{m.pop()}, items...)
		}
		m.push(&Object{Keys: items})
	case 0x93: // STACK_GLOBAL
		m.pop()
		m.pop()
		m.push(&Object{})
	case 'c': // GLOBAL, of protocols before 4
		for range 2 {
			m.take(uint64(bytes.IndexByte(m.text, '\n') + 1))
		}
		m.push(&Object{})
	case 0x81: // NEWOBJ
		m.pop()
		m.pop()
		m.push(&Object{})
	case 'R': // REDUCE: before protocol 4 a set is made of the list of its members
		made, _ := m.pop().(*Object)
		m.pop()
		if made == nil {
			made = &Object{}
		}
		if len(made.Keys) == 1 {
			if members, is := made.Keys[0].(*Object); is {
				made = members
			}
		}
		m.push(made)
	case 's', 'u': // SETITEM, SETITEMS
		var pairs []any
		if op == 'u' {
			pairs = m.items()
		} else {
			value := m.pop()
			pairs = []any{m.pop(), value}
		}
		into := m.top()
		for at := 0; at+1 < len(pairs); at += 2 {
			into.Keys, into.Values = append(into.Keys, pairs[at]), append(into.Values, pairs[at+1])
		}
	case 0x90, 'e': // ADDITEMS, APPENDS
		items := m.items()
		into := m.top()
		into.Keys = append(into.Keys, items...)
	case 'a':
		item := m.pop()
		into := m.top()
		into.Keys = append(into.Keys, item)
	case 'b': // BUILD
		with, _ := m.pop().(*Object)
		if into := m.top(); with != nil {
			into.Keys, into.Values = with.Keys, with.Values
		}
	case 0x94: // MEMOIZE
		m.keep(uint64(len(m.memo)))
	case 'q', 'r': // BINPUT, LONG_BINPUT
		m.keep(m.length(map[byte]uint64{'q': 1, 'r': 4}[op]))
	case 'h', 'j': // BINGET, LONG_BINGET
		m.recall(m.length(map[byte]uint64{'h': 1, 'j': 4}[op]))
	default:
		m.err = fmt.Errorf("a pickle with the operation %#02x, which is not read here", op)
	}
}
