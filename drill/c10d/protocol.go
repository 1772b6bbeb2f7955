// SPDX-License-Identifier: Apache-2.0

// Package c10d speaks the protocol of torch's TCPStore, as a client and as a
// server, in its three generations.
//
// Client and server say what a rendezvous needs and no more; the server serves everybody, or
// those alone that know a key.
//
// Keys travel as they are given. torch puts a "/" before every key its users
// name, and none before init/, the count of those who joined.
//
// It refuses to disturb: a running job's store is only ever asked complete
// requests that change nothing.
//
// The facts are pytorch/pytorch, torch/csrc/distributed/c10d: TCPStore.cpp (1.13
// for the oldest generation), TCPStoreBackend.cpp and TCPStoreLibUvBackend.cpp;
// testdata holds what releases of it really sent.
package c10d

import (
	"errors"

	"preflight/facts"
)

// magic is what follows VALIDATE (TCPStoreBackend.hpp, validationMagicNumber).
const magic uint32 = 0x3C85F7CE

// What one request may hold: a key and a value as much as in torch (TCPStoreLibUvBackend.cpp,
// MAX_STRING_LEN and MAX_PAYLOAD_LEN), and more keys than any of ours asks for at once.
const (
	maxKey   = 8 << 10
	maxValue = 8 << 20
	maxKeys  = 1 << 10
)

var (
	// ErrNotAStore is an answer that no store gives.
	ErrNotAStore = errors.New("the answer is not one of a c10d store")

	errTooLong    = errors.New("a key or value is longer than a store takes")
	errTooMany    = errors.New("a request has more keys than are taken")
	errUnknown    = errors.New("a request of unknown type")
	errNoNumber   = errors.New("the value to add to is not a number")
	errNoSuchKey  = errors.New("no such key")
	errNotGreeted = errors.New("the first request is not VALIDATE")
)

// query is the type of a request, numbered as since 2.1. The numbers between these are those of
// requests that torch's ranks make and ours do not.
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
	queryWatchKey query = 255 // of the oldest generation only; not a number on the wire
)

// Replies to CHECK and WAIT.
const (
	replyReady    byte = 0
	replyNotReady byte = 1
	replyStop     byte = 0
)

// The oldest generation has no VALIDATE, so that everything up to GETNUMKEYS is
// one less there, and WATCH_KEY stands where GETNUMKEYS is now.
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
