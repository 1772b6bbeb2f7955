// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// A call sends these messages:
//
//	caller    hello, payload
//	listener                  answer, received, payload
//
// Each side sends everything at once, which takes five packets and one wake-up on each side. If the
// call fails, this does not show which part failed, so the call is repeated step by step:
//
//	caller    hello          payload
//	listener         answer           received | payload
//
// Hello and answer are small and sent separately, so that they pass where full packets do not. The
// listener's payload comes last, so that the missing part shows the direction. At the end the
// caller resets the connection, which leaves nothing behind on either side. In particular it leaves
// no TIME_WAIT on ports that a whole fleet calls.

// These are the kinds of a message. No common protocol starts with these bytes.
const (
	meshHello        byte = 0xA1
	throughputHello  byte = 0xA2
	meshAnswer       byte = 0xB1
	throughputAnswer byte = 0xB2
	// received is the message of a listener that has received the caller's whole payload.
	received byte = 0xC1
)

// key is the run's token in the form in which it is sent.
type key [sha256.Size]byte

func keyOf(token string) key { return sha256.Sum256([]byte(token)) }

// message is a hello or an answer. It consists of the kind, the key, the amount in 8 bytes
// big-endian, the length of the name in one byte, and the name.
type message struct {
	kind byte
	// amount is how many bytes of payload the sender will send. In a throughput call it is the
	// duration in nanoseconds. In the answer to a throughput call it is the rate in bit/s.
	amount uint64
	name   string // name of the sending node
}

// headLength is the length of a message before the name. maxName limits the length of the name.
const (
	headLength = 1 + len(key{}) + 8 + 1
	maxName    = 255
)

func (m message) encode(k key) []byte {
	m.name = m.name[:min(len(m.name), maxName)]
	b := make([]byte, 0, headLength+len(m.name)+1) // one more byte, because received may follow
	b = append(b, m.kind)
	b = append(b, k[:]...)
	b = binary.BigEndian.AppendUint64(b, m.amount)
	b = append(b, byte(len(m.name)))
	return append(b, m.name...)
}

var (
	// errStranger means that the other side does not know the token.
	errStranger = errors.New("another program answers there")
	// errHungUp means that the connection ended in the middle of a call.
	errHungUp = errors.New("the connection was closed before the call ended")
	// errShort means that only the beginning of a message has arrived.
	errShort = errors.New("the message is not complete")
)

// decode reads a message of one of the kinds from the start of b, and returns the bytes after the
// message. It returns errShort only if more bytes can still complete the message.
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
	// payloadSegments is how many full segments each side sends.
	payloadSegments = 3
	// maxPayload is the size of payloadSegments segments of the largest possible size.
	maxPayload = payloadSegments << 16
)

// speech is a hello followed by its payload, or an answer followed by received and the payload. A
// node sends the same bytes to all peers whose segment sizes are the same.
type speech struct {
	kind         byte
	key          key
	node         string
	mss          int
	prefixLength int // length of the hello or the answer
	text         []byte
}

// forSegment returns the speech for a connection whose maximum segment size is mss. The caller must
// not change the result.
func (s *speech) forSegment(mss int) []byte {
	if s.text == nil || s.mss != mss {
		payload := payloadFor(mss)
		text := message{kind: s.kind, amount: uint64(len(payload)), name: s.node}.encode(s.key)
		s.mss, s.prefixLength = mss, len(text)
		if s.kind == meshAnswer {
			text = append(text, received)
		}
		s.text = append(text, payload...)
	}
	return s.text
}

// payload is the source of all payloads. Its content does not matter.
var payload [maxPayload]byte

// payloadFor returns the payload for a connection whose maximum segment size is mss.
func payloadFor(mss int) []byte {
	return payload[:min(payloadSegments*mss, maxPayload)]
}
