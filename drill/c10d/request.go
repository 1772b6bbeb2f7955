// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"io"

	"preflight/facts"
)

// request is one request, with the fields its query has.
type request struct {
	query  query
	keys   []string // one where there can be only one
	values [][]byte // SET, APPEND: one; MULTI_SET: one a key; COMPARE_SET: expected and desired
	delta  int64    // ADD
	nonce  uint32   // PING
}

func (r request) encode(g facts.Generation) []byte {
	wire := []byte{r.query.wire(g)}
	switch r.query {
	case querySet, queryAppend, queryCompareSet, queryGet, queryDeleteKey, queryAdd:
		wire = putString(wire, r.keys[0])
		for _, value := range r.values {
			wire = putString(wire, value)
		}
		if r.query == queryAdd {
			wire = putInt(wire, r.delta)
		}
	case queryCheck, queryWait, queryMultiGet:
		wire = putStrings(wire, r.keys)
	case queryMultiSet:
		wire = putInt(wire, int64(len(r.keys)))
		for i, key := range r.keys {
			wire = putString(putString(wire, key), r.values[i])
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
	case querySet, queryAppend:
		err = r.readKeyed(d, 1)
	case queryCompareSet:
		err = r.readKeyed(d, 2)
	case queryGet, queryDeleteKey, queryWatchKey:
		err = r.readKeyed(d, 0)
	case queryAdd:
		if err = r.readKeyed(d, 0); err == nil {
			r.delta, err = d.int()
		}
	case queryCheck, queryWait, queryMultiGet, queryMultiSet:
		err = r.readMany(d)
	case queryPing:
		r.nonce, err = d.uint32()
	}
	return err
}

func (r *request) readKeyed(d decoder, values int) error {
	key, err := d.key()
	if err != nil {
		return err
	}
	r.keys = append(r.keys, key)
	for range values {
		value, err := d.value()
		if err != nil {
			return err
		}
		r.values = append(r.values, value)
	}
	return nil
}

// keyCost is what an announced key takes even when it is empty.
const keyCost = 40

// readMany reads keys behind their number, with a value each in MULTI_SET.
func (r *request) readMany(d decoder) error {
	count, err := d.count()
	if err != nil {
		return err
	}
	values := 0
	if r.query == queryMultiSet {
		values = 1
	}
	for range count {
		if d.spend != nil {
			if err := d.spend(keyCost); err != nil {
				return err
			}
		}
		if err := r.readKeyed(d, values); err != nil {
			return err
		}
	}
	return nil
}

// readGreeting reads VALIDATE, which every connection begins with since 2.1.
func readGreeting(from io.Reader) error {
	d := decoder{from: from}
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
