// SPDX-License-Identifier: Apache-2.0

// Package meet carries to nodes that call us: agents that were started there by somebody else,
// as the init containers of pods are, and that wait at one address for a judge. Who calls
// proves to know a token that is shared beforehand, and is shown that we know it too; the
// token itself is never sent.
//
// It refuses to start anything on a node, to hear whoever does not know the token for longer
// than it takes to find out, and to hide what is said afterwards: that is as open as what the
// ranks themselves will send each other.
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

// wire is the number of what is said here and over remote's wire together. Builds of one
// number understand each other.
const wire = 2

const (
	// callTime is what finding out who calls may take.
	callTime = 5 * time.Second
	// maxCall is the longest line of a call.
	maxCall = 4 << 10
	// leastToken is how long a token must be: whoever listens on the way may try tokens at leisure.
	leastToken = 16
)

// Checked is what is wrong with a token, nil for nothing.
func Checked(token string) error {
	if len(token) < leastToken {
		return fmt.Errorf("the token has %d characters and needs at least %d, so that it cannot be guessed", len(token), leastToken)
	}
	return nil
}

// The call. The node speaks first, and proves itself first: a stranger who calls learns
// nothing that is made of the token.
type (
	// hello is the node's first line.
	hello struct {
		Wire  int    `json:"wire"`
		Node  string `json:"node"`
		Nonce string `json:"nonce"`
	}
	// challenge is the judge's answer, or refusal.
	challenge struct {
		Wire    int    `json:"wire"`
		Nonce   string `json:"nonce,omitempty"`
		Refused string `json:"refused,omitempty"`
	}
	// proof is what only who knows the token can say of a call: first the node's, then the judge's.
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

// proofOf is that of one side of a call. Each part is of a length that another cannot take from.
func proofOf(token, side string, h hello, c challenge) string {
	mac := hmac.New(sha256.New, []byte(token))
	_ = json.NewEncoder(mac).Encode([]string{"preflight meet", side, h.Node, h.Nonce, c.Nonce}) // strings, to a hash
	return hex.EncodeToString(mac.Sum(nil))
}

// is compares proofs in a time that says nothing of them.
func (p proof) is(want string) bool { return hmac.Equal([]byte(p.Proof), []byte(want)) }

// line is one end of a call.
type line struct {
	net.Conn
	in *bufio.Reader
}

func newLine(conn net.Conn) *line { return &line{conn, bufio.NewReaderSize(conn, maxCall)} }

func (l *line) say(message any) error {
	text, err := json.Marshal(message)
	if err == nil {
		_, err = l.Write(append(text, '\n'))
	}
	return err
}

func (l *line) hear(message any) error {
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

// Verdict is what the judge says at the end, and to all the same.
type Verdict struct {
	Go  bool   `json:"go"` // the launch may begin
	Why string `json:"why"`
}

// Behind the call the judge says when it looks, so that what the node says then tells its clock.
// The node sends the wire, and closes its half when its agent has ended. The judge sends
// requests, each a line that begins with a brace, then a line that says over, and a verdict when
// there is one.
const (
	look        = "look\n"
	over        = "over\n"
	verdictMark = "verdict "
)
