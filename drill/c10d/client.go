// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"preflight/facts"
)

// Client is a connection to a store, for one goroutine at a time.
//
// If a method's context ends before the store has answered, the method closes the connection. That
// ends the wait at once, and the method returns the context's error.
type Client struct {
	conn       net.Conn
	replies    decoder
	generation facts.Generation
	pending    []byte // requests without a reply, which the next write sends
}

// NewClient returns a client on a connection, which the client then owns. The first method to call
// is Validate or ValidateAndCount.
func NewClient(conn net.Conn, g facts.Generation) *Client {
	return &Client{conn: conn, replies: decoder{bufio.NewReader(conn)}, generation: g}
}

// Close ends the connection. The store keeps its data.
func (c *Client) Close() error { return c.conn.Close() }

// Validate makes the next request begin as the generation requires. No store answers VALIDATE, so
// the answer to the next request shows whether the store accepted it.
func (c *Client) Validate() {
	if c.generation != facts.GenerationLegacy {
		c.pending = greeting()
	}
}

// ValidateAndCount sends VALIDATE and NumKeys in one write. Together they are the shortest proof of
// a store since 2.1. An older store reads both as the start of a length, and waits for the rest
// until the connection ends.
func (c *Client) ValidateAndCount(ctx context.Context) (int64, error) {
	c.pending = greeting()
	return c.NumKeys(ctx)
}

// Ping makes the store return the nonce (since torch 2.5).
func (c *Client) Ping(ctx context.Context, nonce uint32) error {
	return c.do(ctx, request{query: queryPing, nonce: nonce}, func(reply decoder) error {
		returned, err := reply.uint32()
		return orNotAStore(err, returned == nonce)
	})
}

// Set stores a value. Stores do not confirm a SET: until the next reply, it is only known that the
// request was sent.
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	return c.do(ctx, request{query: querySet, keys: []string{key}, value: value}, nil)
}

// Add adds delta to a number, which starts at 0, and returns the sum.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return c.number(ctx, request{query: queryAdd, keys: []string{key}, delta: delta})
}

// NumKeys returns how many keys the store has.
func (c *Client) NumKeys(ctx context.Context) (int64, error) {
	return c.number(ctx, request{query: queryNumKeys})
}

// Check reports whether all keys exist.
func (c *Client) Check(ctx context.Context, keys ...string) (bool, error) {
	var answer byte
	err := c.do(ctx, request{query: queryCheck, keys: keys}, func(reply decoder) (err error) {
		answer, err = reply.byte()
		return orNotAStore(err, answer == replyReady || answer == replyNotReady)
	})
	return answer == replyReady, err
}

// Get returns a value. If the key is missing, a store closes the connection; a libuv store (since
// 2.4) returns an empty value. So call Wait first, as torch does.
func (c *Client) Get(ctx context.Context, key string) (value []byte, err error) {
	err = c.do(ctx, request{query: queryGet, keys: []string{key}}, func(reply decoder) (err error) {
		if value, err = reply.bytes(maxValue); errors.Is(err, errTooLong) {
			err = ErrNotAStore // no store has values of this length
		}
		return err
	})
	return value, err
}

// Wait waits until all keys exist.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	return c.do(ctx, request{query: queryWait, keys: keys}, func(reply decoder) error {
		answer, err := reply.byte()
		return orNotAStore(err, answer == replyStop)
	})
}

// do writes a request and reads the reply with read. If read is nil, the request has no reply.
func (c *Client) do(ctx context.Context, r request, read func(decoder) error) error {
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	_, err := c.conn.Write(append(c.pending, r.encode(c.generation)...))
	c.pending = nil
	if err == nil && read != nil {
		err = read(c.replies)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil: // the end of the context has closed the connection
		return context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the other end closed the connection: %w", err)
	}
	return err
}

func orNotAStore(err error, asItShould bool) error {
	if err == nil && !asItShould {
		err = ErrNotAStore
	}
	return err
}

func (c *Client) number(ctx context.Context, r request) (number int64, err error) {
	err = c.do(ctx, r, func(reply decoder) (err error) {
		number, err = reply.int()
		return err
	})
	return number, err
}
