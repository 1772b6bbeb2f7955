// SPDX-License-Identifier: Apache-2.0

// Package c10d implements the protocol of torch's TCPStore, client and server, in its three
// generations.
//
// Client and server support what a rendezvous needs and no more. The server serves all callers, or
// only callers that know a key.
//
// Keys are sent as given. torch puts a "/" before every key that its users name, and none before
// init/, the count of the clients that have joined.
//
// The client must not disturb a running job: it sends that job's store only complete requests that
// change nothing.
//
// Sources: pytorch/pytorch, torch/csrc/distributed/c10d: TCPStore.cpp (1.13 for the oldest
// generation), TCPStoreBackend.cpp and TCPStoreLibUvBackend.cpp; testdata has recordings of real
// releases.
package c10d

import (
	"encoding/binary"
	"errors"
	"io"

	"preflight/facts"
)

// magic is the number that follows VALIDATE (TCPStoreBackend.hpp, validationMagicNumber).
const magic uint32 = 0x3C85F7CE

// These constants limit one request. The limits of key and value are torch's
// (TCPStoreLibUvBackend.cpp, MAX_STRING_LEN and MAX_PAYLOAD_LEN). The limit on keys is higher than
// any request of preflight needs.
const (
	maxKey   = 8 << 10
	maxValue = 8 << 20
	maxKeys  = 1 << 10
)

var (
	// ErrNotAStore is the error for an answer that no store gives.
	ErrNotAStore = errors.New("the answer is not one of a c10d store")

	errTooLong    = errors.New("a key or value is longer than the store accepts")
	errTooMany    = errors.New("a request has more keys than the store accepts")
	errUnknown    = errors.New("the request has an unknown type")
	errNoNumber   = errors.New("the value to add to is not a number")
	errNoSuchKey  = errors.New("no such key")
	errNotGreeted = errors.New("the first request is not VALIDATE")
)

// query is the type of a request, with the numbers used since 2.1. The missing numbers belong to
// requests that torch's ranks send and preflight does not.
type query byte

const (
	queryValidate query = 0
	querySet      query = 1
	queryGet      query = 3
	queryAdd      query = 4
	queryCheck    query = 5
	queryWait     query = 6
	queryNumKeys  query = 7
	queryPing     query = 13
	queryWatchKey query = 255 // only in the oldest generation; this number is never sent
)

// These are the replies to CHECK and WAIT.
const (
	replyReady    byte = 0
	replyNotReady byte = 1
	replyStop     byte = 0
)

// legacyWatchKey is the number of WATCH_KEY in the oldest generation, which has no VALIDATE. In
// that generation the numbers up to GETNUMKEYS are one smaller. WATCH_KEY has the number that
// GETNUMKEYS has now.
const legacyWatchKey byte = 7

func (q query) wire(g facts.Generation) byte {
	if g == facts.GenerationLegacy && q <= queryNumKeys {
		return byte(q) - 1
	}
	return byte(q)
}

func queryOf(number byte, g facts.Generation) (query, error) {
	switch {
	case g == facts.GenerationLegacy && number == legacyWatchKey:
		return queryWatchKey, nil
	case g == facts.GenerationLegacy && number < legacyWatchKey:
		return query(number + 1), nil
	case query(number) == queryPing && g != facts.GenerationPings, query(number) > queryPing, query(number) == queryValidate:
		return 0, errUnknown
	}
	return query(number), nil
}

// request is one request, with the fields of its query.
type request struct {
	query query
	keys  []string // exactly one for queries that take one key
	value []byte   // for SET
	delta int64    // for ADD
	nonce uint32   // for PING
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

// readRequest reads one request. It returns io.EOF if the stream ends between two requests.
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

// readGreeting reads VALIDATE, with which every connection begins since 2.1.
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

// These functions write the fields of requests and replies. Integers are in the machine's byte
// order. Strings and values follow their length, which is an unsigned 64-bit integer.

func putString[Text string | []byte](to []byte, text Text) []byte {
	return append(binary.NativeEndian.AppendUint64(to, uint64(len(text))), text...)
}

func putInt(to []byte, number int64) []byte {
	return binary.NativeEndian.AppendUint64(to, uint64(number))
}

func putUint32(to []byte, number uint32) []byte {
	return binary.NativeEndian.AppendUint32(to, number)
}

// decoder reads the fields of requests and replies.
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

// bytes reads a length and then as many bytes. It returns an error if the length is more than
// limit.
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

// cutShort converts an error of reading inside a message, where the stream must not end.
func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
