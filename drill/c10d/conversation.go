// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"

	"preflight/facts"
)

type conversation struct {
	*store
	generation facts.Generation
	requests   decoder
	replies    *bufio.Writer
	held       int      // bytes held for the request in hand
	wait       *waiting // the wait that may not be over yet, nil without one
}

// waiting is a wait that is answered when its keys are there.
type waiting struct {
	keys *waiter
	held int           // bytes held for its keys
	stop chan struct{} // closed to give up
	done chan struct{} // closed when nothing will be written any more
}

// converse answers one caller until the connection ends. Whoever breaks the
// protocol is hung up on, as every release of torch does.
func (s *Server) converse(ctx context.Context, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	from := bufio.NewReader(conn)
	c := &conversation{store: s.store, generation: s.generation, replies: bufio.NewWriter(conn)}
	c.requests = decoder{from: from, spend: c.spend}
	defer func() {
		c.endWait()
		c.release(c.held)
	}()
	if s.admission != nil {
		if !s.admission.admit(conn, from, c) {
			return
		}
	} else if s.generation != facts.GenerationLegacy {
		err := readGreeting(from)
		if errors.Is(err, errNotGreeted) && s.generation == facts.GenerationPings {
			_, _ = io.Copy(io.Discard, from) // libuv's server leaves strangers without an answer
		}
		if err != nil {
			return
		}
	}
	for err := error(nil); err == nil; {
		var r request
		if r, err = readRequest(c.requests, s.generation); err == nil {
			err = c.answer(r)
		}
	}
}

// spend holds room in the store for what a request brings.
func (c *conversation) spend(bytes int) error {
	err := c.hold(bytes)
	if err == nil {
		c.held += bytes
	}
	return err
}

// answer carries a request out and writes its reply. Any request ends a wait
// that is not over: callers of the oldest generation give up in no other way.
func (c *conversation) answer(r request) error {
	c.endWait()
	if r.query == queryWait {
		return c.beginWait(r.keys)
	}
	if err := c.carryOut(r); err != nil {
		return err
	}
	c.release(c.held)
	c.held = 0
	return c.replies.Flush()
}

// carryOut writes into the buffer of replies, which keeps its first error.
func (c *conversation) carryOut(r request) error {
	switch r.query {
	case querySet, queryMultiSet:
		return c.set(r.keys, r.values)
	case queryAppend:
		return c.append(r.keys[0], r.values[0])
	case queryCompareSet:
		value, err := c.compareSet(r.keys[0], r.values[0], r.values[1])
		return c.reply(putString(nil, value), err)
	case queryGet, queryMultiGet:
		return c.replyValues(r.keys)
	case queryAdd:
		sum, err := c.add(r.keys[0], r.delta)
		return c.reply(putInt(nil, sum), err)
	case queryCheck:
		answer := replyNotReady
		if c.allThere(r.keys) {
			answer = replyReady
		}
		return c.reply([]byte{answer}, nil)
	case queryNumKeys:
		return c.reply(putInt(nil, c.count()), nil)
	case queryDeleteKey:
		return c.reply(putInt(nil, c.delete(r.keys[0])), nil)
	case queryCancelWait:
		return c.reply([]byte{replyCanceled}, nil)
	case queryPing:
		return c.reply(putUint32(nil, r.nonce), nil)
	case queryWatchKey:
		// No release offers watching to Python; registering is all that can happen.
		return c.reply([]byte{replyRegistered}, nil)
	}
	return errUnknown
}

func (c *conversation) reply(wire []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = c.replies.Write(wire)
	return err
}

// replyValues writes one value a key. Where a key is missing libuv's server
// returns an empty one and the older ones hang up.
func (c *conversation) replyValues(keys []string) error {
	for _, key := range keys {
		value, found := c.get(key)
		if !found && c.generation != facts.GenerationPings {
			return errNoSuchKey
		}
		if err := c.reply(putString(nil, value), nil); err != nil {
			return err
		}
	}
	return nil
}

// beginWait answers a wait when its keys are there, at once or later, while the
// connection is read on for its end and for CANCEL_WAIT.
func (c *conversation) beginWait(keys []string) error {
	w := &waiting{keys: c.store.wait(keys), held: c.held, stop: make(chan struct{}), done: make(chan struct{})}
	c.wait, c.held = w, 0
	confirm := func() error {
		_ = c.replies.WriteByte(replyStop) // Flush returns its error
		return c.replies.Flush()
	}
	select {
	case <-w.keys.ready:
		close(w.done)
		return confirm()
	default:
	}
	go func() {
		defer close(w.done)
		select {
		case <-w.keys.ready:
			_ = confirm() // a broken connection also ends the reading
		case <-w.stop:
		}
	}()
	return nil
}

// endWait gives a wait up, where it is not over yet, and what it held back.
func (c *conversation) endWait() {
	if c.wait == nil {
		return
	}
	close(c.wait.stop)
	<-c.wait.done
	c.forget(c.wait.keys)
	c.release(c.wait.held)
	c.wait = nil
}
