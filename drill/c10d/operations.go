// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"
	"errors"
	"time"

	"preflight/facts"
)

// Set stores a value. Stores do not confirm it: that it was sent is all that is
// known until the next reply.
func (c *Client) Set(ctx context.Context, key string, value []byte) error {
	return c.do(ctx, request{query: querySet, keys: []string{key}, values: [][]byte{value}}, nil)
}

// Add adds to a number, 0 where there is none yet, and returns the sum.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return c.number(ctx, request{query: queryAdd, keys: []string{key}, delta: delta})
}

// NumKeys is how many keys the store has.
func (c *Client) NumKeys(ctx context.Context) (int64, error) {
	return c.number(ctx, request{query: queryNumKeys})
}

// Check is whether all keys are there.
func (c *Client) Check(ctx context.Context, keys ...string) (bool, error) {
	var answer byte
	err := c.do(ctx, request{query: queryCheck, keys: keys}, func(reply decoder) (err error) {
		answer, err = reply.byte()
		return orNotAStore(err, answer == replyReady || answer == replyNotReady)
	})
	return answer == replyReady, err
}

// Get returns a value. Where the key is missing a store hangs up, or since
// libuv (2.4) returns an empty value: Wait for it first, as torch does.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	return c.value(ctx, request{query: queryGet, keys: []string{key}})
}

// Wait waits until all keys are there. When ctx ends first it takes the wait
// back, so that the connection can be used on; a store of the oldest generation
// has no request for that, nor one that does not confirm it, and then the connection is
// closed. Either way the error is the context's.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	wait := request{query: queryWait, keys: keys}
	if c.generation == facts.GenerationLegacy {
		return c.do(ctx, wait, stopped)
	}
	if err := context.Cause(ctx); err != nil {
		return err // nothing was asked that could be taken back
	}
	asked, canceled := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(canceled)
		c.conn.SetDeadline(time.Now().Add(cancelTime))
		<-asked                                                            // first: the confirmation would be taken for that of the wait
		c.conn.Write(request{query: queryCancelWait}.encode(c.generation)) // what comes of it is read below
	})
	err := c.write(wait.encode(c.generation))
	close(asked)
	var answer byte
	if err == nil {
		answer, err = c.replies.byte()
	}
	if stop() {
		return c.broken(ctx, orNotAStore(err, answer == replyStop))
	}
	<-canceled
	if err == nil && answer == replyStop { // it came to that meanwhile; the confirmation follows
		answer, err = c.replies.byte()
	}
	if err != nil || answer != replyCanceled || c.conn.SetDeadline(time.Time{}) != nil {
		c.conn.Close()
	}
	return context.Cause(ctx)
}

func stopped(reply decoder) error {
	answer, err := reply.byte()
	return orNotAStore(err, answer == replyStop)
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

func (c *Client) value(ctx context.Context, r request) (value []byte, err error) {
	err = c.do(ctx, r, func(reply decoder) (err error) {
		if value, err = reply.value(); errors.Is(err, errTooLong) {
			err = ErrNotAStore // a length no store has
		}
		return err
	})
	return value, err
}
