// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"preflight/facts"
)

// StateKey is where torchrun's launchers of a run keep what they agree on, and StateUnset what a
// store has there before the first has written.
//
// Source: torch 2.5, torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py; the same
// since 1.9.
func StateKey(runID string) string { return "/torch.rendezvous." + runID }

// StateUnset is "canimadam" in base64, as the backend writes it.
const StateUnset = "Y2FuaW1hZGFt"

// ErrNoState is a value that is not what launchers agree on.
var ErrNoState = errors.New("not the state of a rendezvous")

// ReadState reads what launchers agree on as they have it in their store: a pickle in base64.
//
// Source of its fields: torch 2.5, torch/distributed/elastic/rendezvous/dynamic_rendezvous.py,
// _RendezvousState and _NodeDesc.
func ReadState(value []byte) (*facts.Gathering, error) {
	text, err := base64.StdEncoding.DecodeString(string(value))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	whole, err := unpickle(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoState, err)
	}
	state, is := whole.(*object)
	if !is {
		return nil, ErrNoState
	}
	round, _ := state.field("round").(int64)
	complete, _ := state.field("complete").(bool)
	closed, _ := state.field("closed").(bool)
	return &facts.Gathering{
		Round: int(round), Complete: complete, Closed: closed,
		Joined: launchers(state.field("participants")), Waiting: launchers(state.field("wait_list")),
	}, nil
}

// launchers are those that a set or a mapping of them names.
func launchers(of any) []facts.Gatherer {
	all := []facts.Gatherer{}
	named, _ := of.(*object)
	if named == nil {
		return all
	}
	for _, one := range named.keys {
		desc, is := one.(*object)
		if !is {
			continue
		}
		address, _ := desc.field("addr").(string)
		pid, _ := desc.field("pid").(int64)
		all = append(all, facts.Gatherer{Address: address, PID: int(pid)})
	}
	return all
}

// object is whatever a pickle holds that is no number or text: a mapping, the members of a set
// as its keys, or an instance, whose fields are those of the mapping it was built with.
type object struct {
	keys, values []any
}

func (o *object) field(name string) any {
	for i, key := range o.keys {
		if key == name && i < len(o.values) {
			return o.values[i]
		}
	}
	return nil
}

// mark is where the items of a list, set or mapping begin.
type mark struct{}

const (
	// mostPickled is far more than the state of ten thousand launchers takes.
	mostPickled = 8 << 20
	// mostItems bounds what a pickle may make of its bytes.
	mostItems = 1 << 20
)

// unpickle reads a pickle as Python's pickletools would: it names no class, calls nothing and
// imports nothing. Whatever a pickle wants made of a class is an object with the fields that it
// was built with, and what it wants called is its one argument.
//
// Source: CPython, Lib/pickle.py, of the protocols 2 to 5, as far as states use them.
func unpickle(text []byte) (any, error) {
	if len(text) > mostPickled {
		return nil, fmt.Errorf("a pickle of %d bytes", len(text))
	}
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
func (m *machine) top() *object {
	below := m.pop()
	m.push(below)
	if built, is := below.(*object); is {
		return built
	}
	return &object{} // of a class, which is nothing here
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
	case 0x8c, 'X', 0x8d: // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
		m.push(string(m.take(m.length(map[byte]uint64{0x8c: 1, 'X': 4, 0x8d: 8}[op]))))
	case 'C', 'U', 'B', 'T': // SHORT_BINBYTES, SHORT_BINSTRING, BINBYTES, BINSTRING
		m.push(string(m.take(m.length(map[byte]uint64{'C': 1, 'U': 1, 'B': 4, 'T': 4}[op]))))
	case '(':
		m.push(mark{})
	case ')', '}', ']', 0x8f: // EMPTY_TUPLE, EMPTY_DICT, EMPTY_LIST, EMPTY_SET
		m.push(&object{})
	case 't': // TUPLE
		m.push(&object{keys: m.items()})
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		var items []any
		for range op - 0x84 {
			items = append([]any{m.pop()}, items...)
		}
		m.push(&object{keys: items})
	case 0x93: // STACK_GLOBAL
		m.pop()
		m.pop()
		m.push(&object{})
	case 'c': // GLOBAL, of protocols before 4
		for range 2 {
			m.take(uint64(bytes.IndexByte(m.text, '\n') + 1))
		}
		m.push(&object{})
	case 0x81: // NEWOBJ
		m.pop()
		m.pop()
		m.push(&object{})
	case 'R': // REDUCE: before protocol 4 a set is made of the list of its members
		of, _ := m.pop().(*object)
		m.pop()
		made := &object{}
		if of != nil && len(of.keys) == 1 {
			if members, is := of.keys[0].(*object); is {
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
		with, _ := m.pop().(*object)
		if into := m.top(); with != nil {
			into.keys, into.values = with.keys, with.values
		}
	case 0x94: // MEMOIZE
		m.keep(uint64(len(m.memo)))
	case 'q', 'r': // BINPUT, LONG_BINPUT
		m.keep(m.length(map[byte]uint64{'q': 1, 'r': 4}[op]))
	case 'h', 'j': // BINGET, LONG_BINGET
		m.recall(m.length(map[byte]uint64{'h': 1, 'j': 4}[op]))
	default:
		m.err = fmt.Errorf("a pickle with the operation %#02x, which no state has", op)
	}
}
