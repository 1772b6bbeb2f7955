// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"preflight/facts"
)

const (
	// proofTime is how long a caller may take, from its first byte on, to ask for the key that
	// only ours know of. Before that it may be one of ours that is busy.
	proofTime = 5 * time.Second
	// maxStrangers is how many callers may be there that have not, beside those that are
	// expected. Whoever comes when there are as many takes the place of another.
	maxStrangers = 512
	// maxSought is how many keys, and how long ones, a stranger may look for at once.
	maxSought, maxSoughtKey = 4, 256
)

// AdmitOnly has a store serve nobody but callers that begin with a CHECK for this key, as
// those do that know of it. Others may count the keys and look for some, which is how a
// preflight finds out who is here, and change nothing. It is to be called before Serve.
//
// All callers of ours, so many, may be there before any of them asks.
//
// met is told of every rank of torch that calls, by the address it calls from. It begins
// in another way, and is hung up on without an answer: one since 2.5 takes that for a
// server that is not up yet and calls again, so that it will find the store it is meant
// to. Whatever else calls is no rank, and nobody is told.
func (s *Server) AdmitOnly(key string, callers int, met func(from netip.Addr)) {
	s.admission = &admission{key: key, most: maxStrangers + callers, met: met, strangers: map[netip.Addr][]net.Conn{}}
}

// admission is who may use a store, and who is still to show that he may.
type admission struct {
	key  string
	most int // strangers
	met  func(from netip.Addr)

	mu        sync.Mutex
	strangers map[netip.Addr][]net.Conn // by where they call from, the oldest first
	count     int
}

// enter takes one more stranger in.
func (a *admission) enter(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count >= a.most {
		a.dismissLocked()
	}
	from := caller(conn)
	a.strangers[from] = append(a.strangers[from], conn)
	a.count++
}

// leave is for one that is gone or is no stranger any more.
func (a *admission) leave(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := caller(conn)
	for i, one := range a.strangers[from] {
		if one == conn {
			a.remove(from, i)
			return
		}
	}
}

func (a *admission) remove(from netip.Addr, i int) {
	left := append(a.strangers[from][:i:i], a.strangers[from][i+1:]...)
	if a.strangers[from] = left; len(left) == 0 {
		delete(a.strangers, from)
	}
	a.count--
}

// dismiss hangs up on the oldest stranger of the address that has most here, so that
// whoever calls a thousand times keeps nobody else out. It is false where there is none.
func (a *admission) dismiss() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dismissLocked()
}

func (a *admission) dismissLocked() bool {
	var most netip.Addr
	for from, conns := range a.strangers {
		if len(conns) > len(a.strangers[most]) {
			most = from
		}
	}
	if len(a.strangers[most]) == 0 {
		return false
	}
	a.strangers[most][0].Close()
	a.remove(most, 0)
	return true
}

func caller(conn net.Conn) netip.Addr {
	if tcp, is := conn.RemoteAddr().(*net.TCPAddr); is {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// admit answers a stranger until it asks for the key, which is answered too. It is false
// for all others, when they have gone or are to be hung up on.
func (a *admission) admit(conn net.Conn, from *bufio.Reader, c *conversation) bool {
	if _, err := from.Peek(1); err != nil || conn.SetDeadline(time.Now().Add(proofTime)) != nil {
		return false
	}
	if c.generation != facts.GenerationLegacy {
		if first, _ := from.Peek(1); query(first[0]) != queryValidate {
			a.hear(conn, from, c.generation)
			return false
		}
		if readGreeting(from) != nil {
			return false
		}
	}
	known := false // as one who only looks
	for {
		first, err := from.Peek(1)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && c.generation != facts.GenerationLegacy && !known {
				a.met(caller(conn)) // nobody but ranks says VALIDATE and no more
			}
			return false
		}
		switch q, err := queryOf(first[0], c.generation); {
		case err == nil && (q == queryNumKeys || q == queryPing && known):
		case err == nil && q == queryCheck && seeksFew(from):
		case known, err == nil && q == queryCheck: // PING of a store that has none, or more than a stranger may ask
			return false
		case c.generation == facts.GenerationLegacy:
			a.hear(conn, from, c.generation)
			return false
		default:
			a.met(caller(conn))
			return false
		}
		known = true
		r, err := readRequest(decoder{from: from}, c.generation)
		if err != nil || c.answer(r) != nil {
			return false
		}
		if r.query == queryCheck && len(r.keys) == 1 && r.keys[0] == a.key {
			return conn.SetDeadline(time.Time{}) == nil
		}
	}
}

// seeksFew is whether a CHECK that arrives is of no more than a stranger may look for.
func seeksFew(from *bufio.Reader) bool {
	const number = 8 // bytes
	seen := 1
	next := func() (value uint64, arrived bool) {
		text, err := from.Peek(seen + number)
		if err != nil {
			return 0, false
		}
		value = binary.NativeEndian.Uint64(text[seen:])
		seen += number
		return value, true
	}
	count, arrived := next()
	if !arrived || count > maxSought {
		return false
	}
	for range count {
		length, arrived := next()
		if !arrived || length > maxSoughtKey {
			return false
		}
		seen += int(length)
	}
	return true
}

// hear tells of a rank whose torch speaks another generation than this store. What else a
// caller says is taken without an answer where libuv's server would, which treats everybody
// so; an older one hangs up.
func (a *admission) hear(conn net.Conn, from *bufio.Reader, g facts.Generation) {
	switch {
	case isRank(from):
		a.met(caller(conn))
	case g == facts.GenerationPings:
		_, _ = io.Copy(io.Discard, from)
	}
}

// isRank is whether a caller begins as a rank does: by VALIDATE and not to look for keys, as
// a preflight, or before there was one by a request for a key of torch's.
func isRank(from *bufio.Reader) bool {
	validate := greeting()
	if text, err := from.Peek(len(validate)); err != nil {
		return false
	} else if bytes.Equal(text, validate) {
		text, err := from.Peek(len(validate) + 1)
		return err != nil || query(text[len(validate)]) != queryCheck && query(text[len(validate)]) != queryNumKeys
	}
	for _, prefix := range []string{"init/", "/"} {
		const before = 1 + 8 // a query and a length
		text, err := from.Peek(before + len(prefix))
		if err != nil {
			return false
		}
		_, unknown := queryOf(text[0], facts.GenerationLegacy)
		length := binary.NativeEndian.Uint64(text[1:])
		if unknown == nil && length <= maxKey && string(text[before:]) == prefix {
			return true
		}
	}
	return false
}
