package c10d

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
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

// NewClient speaks over a connection that it then owns. Since 2.1 Validate has
// to come first.
func NewClient(conn net.Conn, g facts.Generation) *Client {
	return &Client{conn: conn, replies: decoder{from: bufio.NewReader(conn)}, generation: g}
}

// Close ends the connection. The store forgets nothing.
func (c *Client) Close() error { return c.conn.Close() }

// Greet begins as the generation does, in one write.
func (c *Client) Greet(ctx context.Context, nonce uint32) error {
	switch c.generation {
	case facts.GenerationLegacy:
		return nil
	case facts.GenerationValidates:
		return c.Validate(ctx)
	}
	c.pending = greeting()
	return c.Ping(ctx, nonce)
}

// Validate says that a TCPStore client is calling. No store answers it: what
// comes of it shows at the next request.
func (c *Client) Validate(ctx context.Context) error {
	if c.generation == facts.GenerationLegacy {
		return fmt.Errorf("validate: %w", ErrUnsupported)
	}
	c.pending = greeting()
	return c.exchange(ctx, nil, nil)
}

// ValidateAndCount is Validate and NumKeys in one write, which together are the
// shortest proof of a store since 2.1. An older one takes both for the start of
// a length, and waits for the rest until the connection ends.
func (c *Client) ValidateAndCount(ctx context.Context) (int64, error) {
	c.pending = greeting()
	return c.NumKeys(ctx)
}

func greeting() []byte { return putUint32([]byte{byte(queryValidate)}, magic) }

// Ping has the store return the nonce (since 2.5).
func (c *Client) Ping(ctx context.Context, nonce uint32) error {
	if c.generation != facts.GenerationPings {
		return fmt.Errorf("ping: %w", ErrUnsupported)
	}
	return c.do(ctx, request{query: queryPing, nonce: nonce}, func(reply decoder) error {
		returned, err := reply.uint32()
		if err == nil && returned != nonce {
			err = ErrNotAStore
		}
		return err
	})
}

// do sends a request and reads its reply.
func (c *Client) do(ctx context.Context, r request, read func(decoder) error) error {
	if err := r.sendable(); err != nil {
		return err
	}
	return c.exchange(ctx, r.encode(c.generation), read)
}

// sendable is whether stores take such a request. A server that is asked for too
// much hangs up.
func (r request) sendable() error {
	if len(r.keys) > maxKeys {
		return errTooMany
	}
	long := slices.ContainsFunc(r.keys, func(key string) bool { return len(key) > maxKey }) ||
		slices.ContainsFunc(r.values, func(value []byte) bool { return len(value) > maxValue })
	if long {
		return errTooLong
	}
	return nil
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
