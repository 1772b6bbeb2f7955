// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"encoding/binary"
	"io"

	"preflight/facts"
)

// request is one request, with the fields its query has.
type request struct {
	query query
	keys  []string // one where there can be only one
	value []byte   // SET
	delta int64    // ADD
	nonce uint32   // PING
}

func (r request) encode(g facts.Generation) []byte {
	wire := []byte{r.query.wire(g)}
	switch r.query {
	case querySet:
		wire = putString(putString(wire, r.keys[0]), r.value)
	case queryGet:
		wire = putString(wire, r.keys[0])
	case queryAdd:
		wire = putInt(putString(wire, r.keys[0]), r.delta)
	case queryCheck, queryWait:
		wire = putInt(wire, int64(len(r.keys)))
		for _, key := range r.keys {
			wire = putString(wire, key)
		}
	case queryPing:
		wire = putUint32(wire, r.nonce)
	}
	return wire
}

// readRequest reads one request. io.EOF is the end between two requests.
func readRequest(d decoder, g facts.Generation) (request, error) {
	number, err := d.byte()
	if err != nil {
		return request{}, err
	}
	r := request{}
	if r.query, err = queryOf(number, g); err == nil {
		err = r.readFields(d)
	}
	return r, cutShort(err)
}

func (r *request) readFields(d decoder) (err error) {
	switch r.query {
	case querySet:
		if err = r.readKeys(d, 1); err == nil {
			r.value, err = d.bytes(maxValue)
		}
	case queryGet:
		err = r.readKeys(d, 1)
	case queryAdd:
		if err = r.readKeys(d, 1); err == nil {
			r.delta, err = d.int()
		}
	case queryCheck, queryWait:
		count, err := d.int()
		if err != nil {
			return err
		}
		if uint64(count) > maxKeys {
			return errTooMany
		}
		return r.readKeys(d, int(count))
	case queryPing:
		r.nonce, err = d.uint32()
	case queryNumKeys:
	default:
		err = errUnknown
	}
	return err
}

func (r *request) readKeys(d decoder, count int) error {
	for range count {
		key, err := d.bytes(maxKey)
		if err != nil {
			return err
		}
		r.keys = append(r.keys, string(key))
	}
	return nil
}

func greeting() []byte { return putUint32([]byte{byte(queryValidate)}, magic) }

// readGreeting reads VALIDATE, which every connection begins with since 2.1.
func readGreeting(from io.Reader) error {
	d := decoder{from}
	number, err := d.byte()
	if err != nil {
		return err
	}
	if query(number) != queryValidate {
		return errNotGreeted
	}
	switch got, err := d.uint32(); {
	case err != nil:
		return cutShort(err)
	case got != magic:
		return errNotGreeted
	}
	return nil
}

// The fields of requests and replies: integers as the machine has them, and
// strings and values behind their length, an unsigned 64-bit integer.

func putString[Text string | []byte](to []byte, text Text) []byte {
	return append(binary.NativeEndian.AppendUint64(to, uint64(len(text))), text...)
}

func putInt(to []byte, number int64) []byte {
	return binary.NativeEndian.AppendUint64(to, uint64(number))
}

func putUint32(to []byte, number uint32) []byte {
	return binary.NativeEndian.AppendUint32(to, number)
}

// decoder reads fields.
type decoder struct{ from io.Reader }

func (d decoder) byte() (byte, error) {
	var field [1]byte
	_, err := io.ReadFull(d.from, field[:])
	return field[0], err
}

func (d decoder) uint32() (uint32, error) {
	var field [4]byte
	_, err := io.ReadFull(d.from, field[:])
	return binary.NativeEndian.Uint32(field[:]), err
}

func (d decoder) int() (int64, error) {
	var field [8]byte
	_, err := io.ReadFull(d.from, field[:])
	return int64(binary.NativeEndian.Uint64(field[:])), err
}

// bytes reads a length and as much behind it, unless that is more than limit.
func (d decoder) bytes(limit int) ([]byte, error) {
	announced, err := d.int()
	if err != nil {
		return nil, err
	}
	if uint64(announced) > uint64(limit) {
		return nil, errTooLong
	}
	value := make([]byte, announced)
	_, err = io.ReadFull(d.from, value)
	return value, cutShort(err)
}

// cutShort is the error of reading on inside a message: its end there is never
// in order.
func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
