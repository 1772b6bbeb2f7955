// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"
	"errors"
	"net"

	"preflight/facts"
)

// What torch's ranks ask of a store beside what a rendezvous needs, so that the
// server can be tried against all of it.

// CompareSet stores desired where the value is expected, or where there is none
// and expected is empty. It returns the value then; expected where there is none.
func (c *Client) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	return c.value(ctx, request{query: queryCompareSet, keys: []string{key}, values: [][]byte{expected, desired}})
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

// Dial connects to host:port and begins as the generation does: since 2.1 with
// Validate, since 2.5 with Ping too.
func Dial(ctx context.Context, address string, g facts.Generation) (*Client, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := NewClient(conn, g)
	if err := c.Greet(ctx, 1); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
