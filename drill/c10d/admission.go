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

// proofTime is how long a caller may take, from its first byte on, to ask for the key that only
// nodes of this run know. Before that byte it may be one of our nodes that is busy.
const proofTime = 5 * time.Second

// AdmitOnly makes a store serve only callers that begin with a CHECK for this key, as this run's
// nodes do. Other callers may count the keys and check for some, which is how another preflight
// finds out whose store this is; they cannot change anything. Call AdmitOnly before Serve.
//
// met is called for every torch rank that calls, with its address. A rank begins in another way,
// and the store closes the connection without an answer. A rank of 2.5 or newer treats that as a
// server that is not up yet and calls again, so that it finds its real store later. met is not
// called for other callers.
func (s *Server) AdmitOnly(key string, met func(from netip.Addr)) {
	s.admission = &admission{key: key, onRank: met}
}

// admission decides which callers may use a store.
type admission struct {
	key    string
	onRank func(from netip.Addr)
}

func caller(conn net.Conn) netip.Addr {
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// admit answers a stranger until it asks for the key, and also that question. It returns false for
// all others, when they have gone or their connection must be closed.
func (s *Server) admit(ctx context.Context, conn net.Conn, from *bufio.Reader) bool {
	a := s.admission
	if _, err := from.Peek(1); err != nil || conn.SetDeadline(time.Now().Add(proofTime)) != nil {
		return false
	}
	if s.generation != facts.GenerationLegacy {
		if first, _ := from.Peek(1); query(first[0]) != queryValidate {
			a.reportRank(conn, from, s.generation)
			return false
		}
		if readGreeting(from) != nil {
			return false
		}
	}
	known := false // it may only look
	for {
		first, err := from.Peek(1)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && s.generation != facts.GenerationLegacy && !known {
				a.onRank(caller(conn)) // only ranks send VALIDATE and nothing else
			}
			return false
		}
		switch q, err := queryOf(first[0], s.generation); {
		case err == nil && (q == queryNumKeys || q == queryPing && known):
		case err == nil && q == queryCheck:
		case known:
			return false
		case s.generation == facts.GenerationLegacy:
			a.reportRank(conn, from, s.generation)
			return false
		default:
			a.onRank(caller(conn))
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

// reportRank reports a rank whose torch uses another protocol generation than this store. For other
// callers it behaves as torch's server of this generation: libuv's reads on without an answer, an
// older one closes the connection.
func (a *admission) reportRank(conn net.Conn, from *bufio.Reader, g facts.Generation) {
	switch {
	case isRank(from):
		a.onRank(caller(conn))
	case g == facts.GenerationPings:
		_, _ = io.Copy(io.Discard, from)
	}
}

// isRank reports whether a caller begins like a rank: with VALIDATE and no question about keys,
// which a preflight would ask, or in the oldest generation with a request for one of torch's keys.
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
