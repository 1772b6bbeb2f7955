// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// pickled is a value in a pickle that is neither a number nor a text. It is a mapping, a list, a
// set or an instance. A list or set has its members as keys. An instance has the fields of the
// mapping from which it was built.
type pickled struct {
	keys, values []any
}

// field returns the value of a named field in a mapping or an instance, nil if there is no such
// field.
func (o *pickled) field(name string) any {
	for i, key := range o.keys {
		if key == name && i < len(o.values) {
			return o.values[i]
		}
	}
	return nil
}

// mark stands on the stack where the items of a list, set or mapping start.
type mark struct{}

// mostItems limits the size of the stack and of the memo.
const mostItems = 1 << 20

// unpickle decodes a Python pickle to nil, a bool, int64, string or *pickled. A *pickled may
// contain itself. unpickle imports and calls nothing: it returns the fields of an instance, and the
// arguments of a call.
//
// Source: CPython, Lib/pickle.py, protocols 2 to 5, the operations in the states of torchrun's
// launchers.
func unpickle(text []byte) (any, error) {
	m := unpickler{text: text}
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
			m.err = errors.New("the pickle has too many items")
		}
	}
	return nil, m.err
}

// unpickler is the stack machine that runs a pickle.
type unpickler struct {
	text  []byte
	stack []any
	memo  []any
	err   error
}

func (m *unpickler) take(n uint64) []byte {
	if n > uint64(len(m.text)) {
		if m.err == nil {
			m.err = errors.New("the pickle is truncated")
		}
		return make([]byte, min(n, 8))
	}
	taken := m.text[:n]
	m.text = m.text[n:]
	return taken
}

// length reads a little-endian number of size bytes.
func (m *unpickler) length(size uint64) uint64 {
	var whole [8]byte
	copy(whole[:], m.take(size))
	return binary.LittleEndian.Uint64(whole[:])
}

func (m *unpickler) push(value any) { m.stack = append(m.stack, value) }

func (m *unpickler) pop() any {
	if len(m.stack) == 0 {
		if m.err == nil {
			m.err = errors.New("the pickle pops more than is on the stack")
		}
		return nil
	}
	top := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return top
}

// top returns the value on top of the stack, which must be a value that can be extended.
func (m *unpickler) top() *pickled {
	below := m.pop()
	m.push(below)
	if built, ok := below.(*pickled); ok {
		return built
	}
	return &pickled{} // an instance of a class; the class is ignored
}

// items returns the values above the topmost mark.
func (m *unpickler) items() []any {
	for at := len(m.stack) - 1; at >= 0; at-- {
		if _, ok := m.stack[at].(mark); ok {
			items := m.stack[at+1:]
			m.stack = m.stack[:at]
			return items
		}
	}
	if m.err == nil {
		m.err = errors.New("the pickle has no mark")
	}
	return nil
}

func (m *unpickler) recall(at uint64) {
	if at >= uint64(len(m.memo)) {
		m.err = errors.New("the pickle reads an empty memo entry")
		return
	}
	m.push(m.memo[at])
}

func (m *unpickler) memoize(at uint64) {
	if at != uint64(len(m.memo)) { // every pickler numbers the memo's entries in order
		m.err = errors.New("the pickle's memo entries are out of order")
		return
	}
	top := m.pop()
	m.push(top)
	m.memo = append(m.memo, top)
}

func (m *unpickler) step(op byte) {
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
	case 0x8c, 'X', 0x8d: // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
		m.push(string(m.take(m.length(map[byte]uint64{0x8c: 1, 'X': 4, 0x8d: 8}[op]))))
	case 'C', 'U', 'B', 'T': // SHORT_BINBYTES, SHORT_BINSTRING, BINBYTES, BINSTRING
		m.push(string(m.take(m.length(map[byte]uint64{'C': 1, 'U': 1, 'B': 4, 'T': 4}[op]))))
	case '(':
		m.push(mark{})
	case ')', '}', ']', 0x8f: // EMPTY_TUPLE, EMPTY_DICT, EMPTY_LIST, EMPTY_SET
		m.push(&pickled{})
	case 't': // TUPLE
		m.push(&pickled{keys: m.items()})
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		var items []any
		for range op - 0x84 {
			items = append([]any{m.pop()}, items...)
		}
		m.push(&pickled{keys: items})
	case 0x93: // STACK_GLOBAL
		m.pop()
		m.pop()
		m.push(&pickled{})
	case 'c': // GLOBAL, of protocols before 4
		for range 2 {
			m.take(uint64(bytes.IndexByte(m.text, '\n') + 1))
		}
		m.push(&pickled{})
	case 0x81: // NEWOBJ
		m.pop()
		m.pop()
		m.push(&pickled{})
	case 'R': // REDUCE: before protocol 4 a set is made from the list of its members
		made, _ := m.pop().(*pickled)
		m.pop()
		if made == nil {
			made = &pickled{}
		}
		if len(made.keys) == 1 {
			if members, ok := made.keys[0].(*pickled); ok {
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
			into.keys, into.values = append(into.keys, pairs[at]), append(into.values, pairs[at+1])
		}
	case 0x90, 'e': // ADDITEMS, APPENDS
		items := m.items()
		into := m.top()
		into.keys = append(into.keys, items...)
	case 'a':
		item := m.pop()
		into := m.top()
		into.keys = append(into.keys, item)
	case 'b': // BUILD
		with, _ := m.pop().(*pickled)
		if into := m.top(); with != nil {
			into.keys, into.values = with.keys, with.values
		}
	case 0x94: // MEMOIZE
		m.memoize(uint64(len(m.memo)))
	case 'q', 'r': // BINPUT, LONG_BINPUT
		m.memoize(m.length(map[byte]uint64{'q': 1, 'r': 4}[op]))
	case 'h', 'j': // BINGET, LONG_BINGET
		m.recall(m.length(map[byte]uint64{'h': 1, 'j': 4}[op]))
	default:
		m.err = fmt.Errorf("the pickle has the operation %#02x, which preflight does not support", op)
	}
}
