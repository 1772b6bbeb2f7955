// SPDX-License-Identifier: Apache-2.0

// Package meet reaches nodes that connect to the launching machine. Another program started their
// agents, such as an init container of a pod, and the agents wait for a verdict. The node and the
// launching machine prove to each other that they know a token that both were given before. The
// token itself is never sent.
//
// The package starts nothing on a node. It does not listen to a node without the token for longer
// than authentication takes. The package does not encrypt what follows, which is as open as what
// the ranks will send each other.
package meet

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// wire is the version of this protocol together with remote's. Builds with the same number
// understand each other.
const wire = 2

const (
	// callTime is the time limit for authenticating a connection.
	callTime = 5 * time.Second
	// maxCall is the longest line during authentication, in bytes.
	maxCall = 4 << 10
	// leastToken is the minimum length of a token, in bytes. An eavesdropper may guess the token
	// offline for an unlimited time.
	leastToken = 16
)

// Checked returns what is wrong with a token, nil if it is fine.
func Checked(token string) error {
	if len(token) < leastToken {
		return fmt.Errorf("the token has %d characters and needs at least %d, so that it cannot be guessed", len(token), leastToken)
	}
	return nil
}

// The messages of the authentication. The node speaks first and proves itself first, so that a
// stranger who connects gets nothing that is derived from the token.
type (
	// hello is the node's first line.
	hello struct {
		Wire  int    `json:"wire"`
		Node  string `json:"node"`
		Nonce string `json:"nonce"`
	}
	// challenge is the launching machine's answer to hello, or its refusal.
	challenge struct {
		Wire    int    `json:"wire"`
		Nonce   string `json:"nonce,omitempty"`
		Refused string `json:"refused,omitempty"`
	}
	// proof can only be computed with the token. First the node sends its proof, then the launching
	// machine sends its own.
	proof struct {
		Proof   string `json:"proof,omitempty"`
		Refused string `json:"refused,omitempty"`
	}
)

func nonce() string {
	var random [32]byte
	rand.Read(random[:]) // never fails, by its documentation
	return hex.EncodeToString(random[:])
}

// proofOf returns the proof of one side. The parts are encoded as JSON, so that different parts
// cannot give the same text.
func proofOf(token, side string, h hello, c challenge) string {
	mac := hmac.New(sha256.New, []byte(token))
	_ = json.NewEncoder(mac).Encode([]string{"preflight meet", side, h.Node, h.Nonce, c.Nonce}) // strings, to a hash
	return hex.EncodeToString(mac.Sum(nil))
}

// equals compares proofs in constant time.
func (p proof) equals(want string) bool { return hmac.Equal([]byte(p.Proof), []byte(want)) }

// line is one end of a connection.
type line struct {
	net.Conn
	in *bufio.Reader
}

func newLine(conn net.Conn) *line { return &line{conn, bufio.NewReaderSize(conn, maxCall)} }

func (l *line) send(message any) error {
	text, err := json.Marshal(message)
	if err == nil {
		_, err = l.Write(append(text, '\n'))
	}
	return err
}

func (l *line) receive(message any) error {
	text, err := l.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("more than %d bytes in one line", maxCall)
	case errors.Is(err, io.EOF):
		return errors.New("the other end closed the connection")
	case err != nil:
		return err
	}
	if err := json.Unmarshal(text, message); err != nil {
		return errors.New("it sent a message that is not part of preflight's protocol")
	}
	return nil
}

// Verdict is the launching machine's last message, the same for all nodes.
type Verdict struct {
	Go  bool   `json:"go"` // the launch may start
	Why string `json:"why"`
}

// After the authentication, the launching machine sends look when it begins. The node answers at
// once, which shows the difference between the clocks. The node then speaks the wire protocol, and
// closes its half of the connection when its agent has ended. The launching machine sends requests
// (lines that begin with a brace), then the line over, and finally a verdict.
const (
	look        = "look\n"
	over        = "over\n"
	verdictMark = "verdict "
)
