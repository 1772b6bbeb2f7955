// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"preflight/facts"
)

// proofTime is how long a caller may take, from its first byte on, to ask for the key that
// only ours know of. Before that it may be one of ours that is busy.
const proofTime = 5 * time.Second

// AdmitOnly makes a store serve only callers that begin with a CHECK for this key, as our
// nodes do. Other callers may count the keys and look for some, which is how another preflight
// finds out who is here, and change nothing. Call AdmitOnly before Serve.
//
// met is called for every rank of torch that calls, with the address it calls from. A rank
// begins in another way, and the store hangs up without an answer: a rank of 2.5 or newer
// treats that as a server that is not up yet and calls again, so that it will find the store
// it is meant for. Other callers are no ranks, and met is not called for them.
func (s *Server) AdmitOnly(key string, met func(from netip.Addr)) {
	s.admission = &admission{key: key, met: met}
}

// admission decides which callers may use a store.
type admission struct {
	key string
	met func(from netip.Addr)
}

func caller(conn net.Conn) netip.Addr {
	if tcp, is := conn.RemoteAddr().(*net.TCPAddr); is {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// admit answers a stranger until it asks for the key, which is answered too. It is false
// for all others, when they have gone or are to be hung up on.
func (s *Server) admit(ctx context.Context, conn net.Conn, from *bufio.Reader) bool {
	a := s.admission
	if _, err := from.Peek(1); err != nil || conn.SetDeadline(time.Now().Add(proofTime)) != nil {
		return false
	}
	if s.generation != facts.GenerationLegacy {
		if first, _ := from.Peek(1); query(first[0]) != queryValidate {
			a.hear(conn, from, s.generation)
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
			if errors.Is(err, os.ErrDeadlineExceeded) && s.generation != facts.GenerationLegacy && !known {
				a.met(caller(conn)) // nobody but ranks says VALIDATE and no more
			}
			return false
		}
		switch q, err := queryOf(first[0], s.generation); {
		case err == nil && (q == queryNumKeys || q == queryPing && known):
		case err == nil && q == queryCheck:
		case known:
			return false
		case s.generation == facts.GenerationLegacy:
			a.hear(conn, from, s.generation)
			return false
		default:
			a.met(caller(conn))
			return false
		}
		known = true
		r, err := s.answerNext(ctx, conn, from)
		if err != nil {
			return false
		}
		if r.query == queryCheck && len(r.keys) == 1 && r.keys[0] == a.key {
			return conn.SetDeadline(time.Time{}) == nil
		}
	}
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
