// SPDX-License-Identifier: Apache-2.0

package meet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"preflight/internal/text"
	"preflight/remote"
)

// ErrNotYet means that the launching machine does not answer yet. It is the only failure for which
// another call may help.
var ErrNotYet = errors.New("the launching machine does not answer")

// Call connects to the launching machine as a node, serves its requests with work, and returns its
// verdict. It ends when ctx ends.
func Call(ctx context.Context, address, node, token string, work func(in io.Reader, out io.Writer) error) (Verdict, error) {
	if err := Checked(token); err != nil {
		return Verdict{}, err
	}
	conn, err := dialer(callTime).DialContext(ctx, "tcp", address)
	if err != nil {
		if name, ok := errors.AsType[*net.DNSError](err); errors.Is(err, syscall.ECONNREFUSED) || ok && (name.IsNotFound || name.IsTemporary) {
			err = fmt.Errorf("%w: %w", ErrNotYet, err)
		}
		return Verdict{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	l := newLine(conn)
	if err := l.introduce(node, token); err != nil {
		return Verdict{}, fmt.Errorf("the launching machine at %s: %w", address, err)
	}
	if err := l.serve(work); err != nil { // work may still be reading
		return Verdict{}, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(remote.DefaultAgentLife))
	return l.verdict()
}

func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
}

// serve answers requests with work, unless the launching machine closes the connection before it
// begins.
func (l *line) serve(work func(in io.Reader, out io.Writer) error) error {
	if begins, err := l.in.ReadSlice('\n'); err != nil || string(begins) != look {
		return nil
	}
	if err := work(&requestsOf{in: l.in}, l.Conn); err != nil {
		return err
	}
	if half, ok := l.Conn.(*net.TCPConn); ok {
		_ = half.CloseWrite() // everything is sent; a verdict shows whether it arrived
	}
	return nil
}

// introduce authenticates the node to the launching machine and the launching machine to the node.
func (l *line) introduce(node, token string) error {
	_ = l.SetDeadline(time.Now().Add(callTime))
	h := hello{Wire: wire, Node: node, Nonce: nonce()}
	var theirs challenge
	var known proof
	if err := l.send(h); err != nil {
		return err
	}
	switch err := l.receive(&theirs); {
	case err != nil:
		return err
	case theirs.Refused != "":
		return errors.New(text.Escape(theirs.Refused))
	case theirs.Wire != wire:
		return fmt.Errorf("it uses protocol %d of preflight, and this node uses %d: run the same release on both", theirs.Wire, wire)
	}
	if err := l.send(proof{Proof: proofOf(token, "node", h, theirs)}); err != nil {
		return err
	}
	switch err := l.receive(&known); {
	case err != nil:
		return err
	case known.Refused != "":
		return errors.New(text.Escape(known.Refused))
	case !known.equals(proofOf(token, "judge", h, theirs)):
		return errors.New("it does not know the token, so another program answers there; this node sent it nothing about itself")
	}
	return l.SetDeadline(time.Time{})
}

// requestsOf reads up to the end of the launching machine's requests, and leaves the text that
// follows unread.
type requestsOf struct {
	in     *bufio.Reader
	inside bool // in the middle of a line
	ended  bool
}

func (r *requestsOf) Read(p []byte) (int, error) {
	if r.ended {
		return 0, io.EOF
	}
	if _, err := r.in.Peek(1); err != nil {
		return 0, err
	}
	piece, _ := r.in.Peek(min(len(p), r.in.Buffered())) // only what is buffered
	if !r.inside && piece[0] != '{' {
		r.ended = true
		return 0, io.EOF
	}
	if i := bytes.IndexByte(piece, '\n'); i >= 0 {
		piece = piece[:i+1]
	}
	r.inside = piece[len(piece)-1] != '\n'
	n := copy(p, piece)
	_, err := r.in.Discard(n)
	return n, err
}

// verdict reads the launching machine's last message.
func (l *line) verdict() (v Verdict, err error) {
	lines := bufio.NewScanner(l.in)
	for lines.Scan() {
		if raw, ok := bytes.CutPrefix(lines.Bytes(), []byte(verdictMark)); ok {
			err := json.Unmarshal(raw, &v)
			v.Why = text.Escape(v.Why)
			return v, err
		}
	}
	return v, errors.New("the launching machine closed the connection without a verdict: see its own report")
}

// backTime is how long an agent that calls back waits for an answer. The launching machine waits
// longer for the call.
const backTime = 3 * time.Second

// Back says how an agent calls back to the launching machine. The agent reads a Back from its
// standard input.
type Back struct {
	To    []string `json:"to"` // addresses of the launching machine, HOST:PORT
	Token string   `json:"token"`
	Name  string   `json:"name"` // the variable that has the name of the agent's node
	// Near names the variable with the address at which Slurm's daemon on the node reached the
	// launching machine, "" for none. Port is the port to connect to at that address.
	Near string `json:"near,omitempty"`
	Port string `json:"port,omitempty"`
}

// CallBack connects to the launching machine as the first line of in says, and serves its requests
// with work. It returns an error only if no address answered. The launching machine reports how the
// conversation ended.
func CallBack(ctx context.Context, in io.Reader, work func(in io.Reader, out io.Writer) error) error {
	var back Back
	if err := json.NewDecoder(bufio.NewReader(in)).Decode(&back); err != nil {
		return fmt.Errorf("could not read where to call: %w", err)
	}
	to := back.To
	if near := os.Getenv(back.Near); near != "" {
		to = append([]string{net.JoinHostPort(near, back.Port)}, to...)
	}
	slices.Sort(to)
	l, err := firstOf(ctx, slices.Compact(to), os.Getenv(back.Name), back.Token)
	if err != nil {
		return err
	}
	defer l.Close()
	_ = l.serve(work)
	return nil
}

// firstOf connects to all addresses at the same time, and returns the first connection whose other
// end knows the token.
func firstOf(ctx context.Context, to []string, node, token string) (*line, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		conn net.Conn
		err  error
	}
	answers := make(chan answer)
	for _, address := range to {
		go func() {
			conn, err := dialer(backTime).DialContext(ctx, "tcp", address)
			select {
			case answers <- answer{conn, err}:
			case <-ctx.Done(): // another address was faster
				if conn != nil {
					conn.Close()
				}
			}
		}()
	}
	var failed []string
	for range to {
		a := <-answers
		if a.err == nil {
			l := newLine(a.conn)
			if a.err = l.introduce(node, token); a.err == nil {
				return l, nil
			}
			l.Close()
		}
		failed = append(failed, text.Escape(a.err.Error()))
	}
	slices.Sort(failed) // so that many nodes report the same text
	return nil, errors.New(strings.Join(failed, "; "))
}
