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
// this run's nodes know. A caller that has sent no byte may be one of this run's nodes that is
// busy.
const proofTime = 5 * time.Second

// AdmitOnly makes a store serve only callers that begin with a CHECK for this key, as this run's
// nodes do. Other callers may count the keys and check for some, which is how another preflight
// finds out whose store this is. They cannot change anything. Call AdmitOnly before Serve.
//
// The store calls met with the address of every torch rank that calls, and only of those. A rank
// begins in another way, and the store closes its connection without an answer. A rank of torch 2.5
// or newer treats that as a server that is not running yet and calls again. So it finds its real
// store later.
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

// admit answers a stranger until the stranger asks for the key, and answers that question as well.
// It returns false for callers that never ask: they have gone, or their connection must be closed.
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
	known := false // an unknown caller may only read
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

// reportRank reports a rank whose torch uses another protocol generation than this store. Towards
// other callers it behaves as torch's server of this generation does. The libuv server reads on
// without an answer, and an older server closes the connection.
func (a *admission) reportRank(conn net.Conn, from *bufio.Reader, g facts.Generation) {
	switch {
	case isRank(from):
		a.onRank(caller(conn))
	case g == facts.GenerationPings:
		_, _ = io.Copy(io.Discard, from)
	}
}

// isRank reports whether a caller begins like a rank. A rank sends VALIDATE and no question about
// keys, while a preflight asks one. In the oldest generation a rank begins with a request for one
// of torch's keys.
func isRank(from *bufio.Reader) bool {
	validate := greeting()
	if text, err := from.Peek(len(validate)); err != nil {
		return false
	} else if bytes.Equal(text, validate) {
		text, err := from.Peek(len(validate) + 1)
		return err != nil || query(text[len(validate)]) != queryCheck && query(text[len(validate)]) != queryNumKeys
	}
	for _, prefix := range []string{"init/", "/"} {
		const before = 1 + 8 // length of a query and of the length field
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
