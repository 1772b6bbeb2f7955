// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"preflight/facts"
)

// cancelTime is how long a store gets to confirm that a wait was given up.
const cancelTime = 200 * time.Millisecond

// Client is a connection to a store, for one goroutine at a time.
//
// A method whose context ends before the store has answered closes the
// connection, which frees it at once, and returns the context's error. Only Wait
// gives up without that.
type Client struct {
	conn       net.Conn
	replies    decoder
	generation facts.Generation
	pending    []byte // requests that have no reply, for the next write
}

// NewClient speaks over a connection that it then owns. Validate, Greet or ValidateAndCount
// has to come first.
func NewClient(conn net.Conn, g facts.Generation) *Client {
	return &Client{conn: conn, replies: decoder{from: bufio.NewReader(conn)}, generation: g}
}

// Close ends the connection. The store forgets nothing.
func (c *Client) Close() error { return c.conn.Close() }

// Validate has what is asked next begin as the generation does. No store answers VALIDATE:
// what comes of it shows at that request.
func (c *Client) Validate() {
	if c.generation != facts.GenerationLegacy {
		c.pending = greeting()
	}
}

// Greet begins as a rank of the generation does, in one write.
func (c *Client) Greet(ctx context.Context, nonce uint32) error {
	c.Validate()
	if c.generation != facts.GenerationPings {
		return c.exchange(ctx, nil, nil)
	}
	return c.Ping(ctx, nonce)
}

// ValidateAndCount is VALIDATE and NumKeys in one write, which together are the
// shortest proof of a store since 2.1. An older one takes both for the start of
// a length, and waits for the rest until the connection ends.
func (c *Client) ValidateAndCount(ctx context.Context) (int64, error) {
	c.pending = greeting()
	return c.NumKeys(ctx)
}

func greeting() []byte { return putUint32([]byte{byte(queryValidate)}, magic) }

// Ping has the store return the nonce (since 2.5).
func (c *Client) Ping(ctx context.Context, nonce uint32) error {
	return c.do(ctx, request{query: queryPing, nonce: nonce}, func(reply decoder) error {
		returned, err := reply.uint32()
		return orNotAStore(err, returned == nonce)
	})
}

func (c *Client) do(ctx context.Context, r request, read func(decoder) error) error {
	return c.exchange(ctx, r.encode(c.generation), read)
}

// exchange writes, and reads what read expects; nothing where it is nil.
func (c *Client) exchange(ctx context.Context, wire []byte, read func(decoder) error) error {
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	err := c.write(wire)
	if err == nil && read != nil {
		err = read(c.replies)
	}
	return c.broken(ctx, err)
}

func (c *Client) write(wire []byte) error {
	_, err := c.conn.Write(append(c.pending, wire...))
	c.pending = nil
	return err
}

// broken is the error of an exchange that failed: the context's, where that is
// what ended it.
func (c *Client) broken(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the other end closed the connection: %w", err)
	}
	return err
}
