// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// A call, as it looks on the wire:
//
//	caller    hello, payload
//	listener                  answer, received, payload
//
// Each says all at once, which is five packets and one wake-up of either. Where
// that fails, it does not say what fails, and the call is repeated step by step:
//
//	caller    hello          payload
//	listener         answer           received | payload
//
// Hello and answer are small and sent by themselves, so that they pass where
// full packets do not, and the listener's payload comes last, so that what
// stays away shows the direction. The caller then resets the connection, which
// leaves nothing behind on either side: no TIME_WAIT on ports that a whole
// fleet calls.

// The kinds of a message. No protocol that people run starts with these bytes.
const (
	meshHello        byte = 0xA1
	throughputHello  byte = 0xA2
	meshAnswer       byte = 0xB1
	throughputAnswer byte = 0xB2
	// received is sent by a listener that has the caller's whole payload.
	received byte = 0xC1
)

// key is the token as it travels.
type key [sha256.Size]byte

func keyOf(token string) key { return sha256.Sum256([]byte(token)) }

// message is a hello or an answer: the kind, the key, the amount in 8 bytes
// big-endian, the length of the name in one byte, the name.
type message struct {
	kind byte
	// amount is how many bytes of payload the speaker will send. In a throughput
	// call it is for how many nanoseconds, and in the answer the bit/s that came.
	amount uint64
	name   string // of the node that speaks
}

// headLength is what a message has before the name; maxName bounds the name.
const (
	headLength = 1 + len(key{}) + 8 + 1
	maxName    = 255
)

func (m message) encode(k key) []byte {
	m.name = m.name[:min(len(m.name), maxName)]
	b := make([]byte, 0, headLength+len(m.name)+1) // received may follow
	b = append(b, m.kind)
	b = append(b, k[:]...)
	b = binary.BigEndian.AppendUint64(b, m.amount)
	b = append(b, byte(len(m.name)))
	return append(b, m.name...)
}

var (
	// errStranger is for what is sent by somebody who does not know the token.
	errStranger = errors.New("another program answers there")
	// errHungUp is for an end in the middle of a call.
	errHungUp = errors.New("the connection was closed before the call ended")
	// errShort is for the beginning of a message.
	errShort = errors.New("the message is not complete")
)

// decode reads a message of one of the kinds from the start of b, and returns
// what follows it. Only what can still become a message is errShort.
func decode(b []byte, k key, kinds ...byte) (m message, rest []byte, err error) {
	if len(b) == 0 {
		return m, nil, errShort
	}
	start := b[1:min(len(b), 1+len(k))]
	if !bytes.Contains(kinds, b[:1]) || !bytes.HasPrefix(k[:], start) {
		return m, nil, errStranger
	}
	if len(b) < headLength {
		return m, nil, errShort
	}
	end := headLength + int(b[headLength-1])
	if len(b) < end {
		return m, nil, errShort
	}
	m.kind, m.amount = b[0], binary.BigEndian.Uint64(b[1+len(k):])
	m.name = string(b[headLength:end])
	return m, b[end:], nil
}

const (
	// payloadSegments is how many full segments cross in each direction.
	payloadSegments = 3
	// maxPayload is three segments of the largest packet there is.
	maxPayload = payloadSegments << 16
)

// speech is a hello with the payload that follows it, or an answer with received
// and the payload. A node says the same to all its peers as long as their
// segments are alike.
type speech struct {
	kind byte
	key  key
	node string
	mss  int
	head int // how long hello or answer are
	text []byte
}

// of is the speech for a connection of this maximum segment. It must not be changed.
func (s *speech) of(mss int) []byte {
	if s.text == nil || s.mss != mss {
		payload := payloadFor(mss)
		text := message{kind: s.kind, amount: uint64(len(payload)), name: s.node}.encode(s.key)
		s.mss, s.head = mss, len(text)
		if s.kind == meshAnswer {
			text = append(text, received)
		}
		s.text = append(text, payload...)
	}
	return s.text
}

// payload is what payloads are cut from. Nobody looks at it.
var payload [maxPayload]byte

// payloadFor is what has to cross a connection of this maximum segment.
func payloadFor(mss int) []byte {
	return payload[:min(payloadSegments*mss, maxPayload)]
}
