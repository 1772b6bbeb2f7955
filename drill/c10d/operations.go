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

// Get returns a value. Where the key is missing a store hangs up, or since
// libuv (2.4) returns an empty value: Wait for it first, as torch does.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	return c.value(ctx, request{query: queryGet, keys: []string{key}})
}

// CompareSet stores desired where the value is expected, or where there is none
// and expected is empty. It returns the value then; expected where there is none.
func (c *Client) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	return c.value(ctx, request{query: queryCompareSet, keys: []string{key}, values: [][]byte{expected, desired}})
}

// Add adds to a number, 0 where there is none yet, and returns the sum.
func (c *Client) Add(ctx context.Context, key string, delta int64) (int64, error) {
	return c.number(ctx, request{query: queryAdd, keys: []string{key}, delta: delta})
}

// NumKeys is how many keys the store has.
func (c *Client) NumKeys(ctx context.Context) (int64, error) {
	return c.number(ctx, request{query: queryNumKeys})
}

// DeleteKey reports whether there was a key to delete.
func (c *Client) DeleteKey(ctx context.Context, key string) (bool, error) {
	deleted, err := c.number(ctx, request{query: queryDeleteKey, keys: []string{key}})
	return deleted > 0, err
}

// Append adds to the end of a value (not in the oldest generation).
func (c *Client) Append(ctx context.Context, key string, value []byte) error {
	return c.do(ctx, request{query: queryAppend, keys: []string{key}, values: [][]byte{value}}, nil)
}

// MultiSet stores several values, one a key (not in the oldest generation).
func (c *Client) MultiSet(ctx context.Context, keys []string, values [][]byte) error {
	if len(keys) != len(values) {
		return errors.New("as many values as keys are needed")
	}
	return c.do(ctx, request{query: queryMultiSet, keys: keys, values: values}, nil)
}

// MultiGet returns several values in the order of their keys (not in the oldest
// generation). What holds for a missing key in Get holds here.
func (c *Client) MultiGet(ctx context.Context, keys ...string) ([][]byte, error) {
	var values [][]byte
	err := c.do(ctx, request{query: queryMultiGet, keys: keys}, func(reply decoder) error {
		for range keys {
			value, err := reply.value()
			if err != nil {
				return err
			}
			values = append(values, value)
		}
		return nil
	})
	return values, err
}

// Check is whether all keys are there.
func (c *Client) Check(ctx context.Context, keys ...string) (bool, error) {
	var said byte
	err := c.do(ctx, request{query: queryCheck, keys: keys}, func(reply decoder) (err error) {
		if said, err = reply.byte(); err == nil && said != replyReady && said != replyNotReady {
			err = ErrNotAStore
		}
		return err
	})
	return said == replyReady, err
}

// Wait waits until all keys are there. When ctx ends first it takes the wait
// back, so that the connection can be used on; a store of the oldest generation
// cannot be told, nor one that does not confirm it, and then the connection is
// closed. Either way the error is the context's.
func (c *Client) Wait(ctx context.Context, keys ...string) error {
	wait := request{query: queryWait, keys: keys}
	if c.generation == facts.GenerationLegacy {
		return c.do(ctx, wait, stopped)
	}
	if err := context.Cause(ctx); err != nil {
		return err // nothing was asked that could be taken back
	}
	if err := wait.sendable(c.generation); err != nil {
		return err
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
	var said byte
	if err == nil {
		said, err = c.replies.byte()
	}
	if stop() {
		return c.broken(ctx, orNotAStore(err, said == replyStop))
	}
	<-canceled
	if err == nil && said == replyStop { // it came to that meanwhile; the confirmation follows
		said, err = c.replies.byte()
	}
	if err != nil || said != replyCanceled || c.conn.SetDeadline(time.Time{}) != nil {
		c.conn.Close()
	}
	return context.Cause(ctx)
}

// stopped reads the end of a wait.
func stopped(reply decoder) error {
	said, err := reply.byte()
	return orNotAStore(err, said == replyStop)
}

// orNotAStore is err, or ErrNotAStore where the reply is not what it should be.
func orNotAStore(err error, asItShould bool) error {
	if err == nil && !asItShould {
		err = ErrNotAStore
	}
	return err
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

func (c *Client) number(ctx context.Context, r request) (number int64, err error) {
	err = c.do(ctx, r, func(reply decoder) (err error) {
		number, err = reply.int()
		return err
	})
	return number, err
}
