// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"preflight/facts"
)

// maxConnections is far more than a fleet needs. It is small enough that so many connections do not
// slow the machine down.
const maxConnections = 32 << 10

// fullTime is the pause before the next accept when the process cannot open more files.
const fullTime = 10 * time.Millisecond

// Server is a store that other processes can call.
type Server struct {
	generation facts.Generation
	store      *store
	admission  *admission // nil if every caller may use the store
}

// NewServer returns an empty store of one generation. With GenerationPings the store treats
// strangers as torch's libuv server does. With other generations it treats them as torch's older
// server does.
func NewServer(g facts.Generation) *Server {
	return &Server{generation: g, store: newStore()}
}

// Listen opens a port as torch does. It uses one socket for all addresses of both IP families. If
// that is not possible, it listens on all IPv4 addresses. Port 0 stands for any free port.
func Listen(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig // sets SO_REUSEADDR and the largest backlog by default
	address := &net.TCPAddr{Port: port}
	listener, err := config.Listen(ctx, "tcp", address.String())
	if err == nil {
		return listener, nil
	}
	if listener, err4 := config.Listen(ctx, "tcp4", address.String()); err4 == nil {
		return listener, nil
	}
	return nil, err
}

// Serve accepts connections until ctx ends. It returns when the listener, every connection and
// every connection's goroutine has ended. The error is nil if ctx ended; otherwise it says why no
// more connections could be accepted.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var conversations sync.WaitGroup
	defer conversations.Wait()
	defer cancel()
	defer listener.Close()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	places := make(chan struct{}, maxConnections)
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			time.Sleep(fullTime)
			continue
		case err != nil:
			return err
		}
		select {
		case places <- struct{}{}:
			conversations.Go(func() {
				defer func() { <-places }()
				s.converse(ctx, conn)
			})
		default:
			conn.Close()
		}
	}
}

// Set stores a value on behalf of the server.
func (s *Server) Set(key string, value []byte) { s.store.set(key, value) }

// converse answers one caller until the connection ends. On a protocol error it closes the
// connection, as every torch release does.
func (s *Server) converse(ctx context.Context, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	from := bufio.NewReader(conn)
	if s.admission != nil {
		if !s.admit(ctx, conn, from) {
			return
		}
	} else if s.generation != facts.GenerationLegacy {
		err := readGreeting(from)
		if errors.Is(err, errNotGreeted) && s.generation == facts.GenerationPings {
			_, _ = io.Copy(io.Discard, from) // libuv's server sends strangers no answer
		}
		if err != nil {
			return
		}
	}
	for {
		if _, err := s.answerNext(ctx, conn, from); err != nil {
			return
		}
	}
}

// answerNext reads a request and answers it.
func (s *Server) answerNext(ctx context.Context, conn net.Conn, from *bufio.Reader) (request, error) {
	r, err := readRequest(decoder{from}, s.generation)
	if err != nil {
		return r, err
	}
	if r.query == queryWait {
		return r, s.answerWait(ctx, conn, from, r.keys)
	}
	reply, err := s.carryOut(r)
	if err == nil && reply != nil {
		_, err = conn.Write(reply)
	}
	return r, err
}

// answerWait answers when all keys exist. It also returns if the caller sends more or closes the
// connection. That is important at the nodes' deadline, when all nodes give up and call once more.
// The server must not hold open files for both connections of each node.
func (s *Server) answerWait(ctx context.Context, conn net.Conn, from *bufio.Reader, keys []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan struct{})
	defer func() { <-heard }()
	go func() {
		defer close(heard)
		if _, err := from.Peek(1); err != nil {
			cancel()
		}
	}()
	for _, key := range keys {
		select {
		case <-s.store.await(key):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := conn.Write([]byte{replyStop})
	return err
}

// carryOut returns the reply to a request, or nil if the request has no reply.
func (s *Server) carryOut(r request) ([]byte, error) {
	switch r.query {
	case querySet:
		s.store.set(r.keys[0], r.value)
		return nil, nil
	case queryGet:
		value, found := s.store.get(r.keys[0])
		if !found && s.generation != facts.GenerationPings { // libuv's server returns an empty value for a missing key
			return nil, errNoSuchKey
		}
		return putString(nil, value), nil
	case queryAdd:
		sum, err := s.store.add(r.keys[0], r.delta)
		return putInt(nil, sum), err
	case queryCheck:
		for _, key := range r.keys {
			if _, found := s.store.get(key); !found {
				return []byte{replyNotReady}, nil
			}
		}
		return []byte{replyReady}, nil
	case queryNumKeys:
		return putInt(nil, s.store.count()), nil
	case queryPing:
		return putUint32(nil, r.nonce), nil
	}
	return nil, errUnknown
}

// store holds the keys and values, and what callers wait for. A value is never changed in place, so
// a value that was returned stays the same.
type store struct {
	mu      sync.Mutex
	values  map[string][]byte
	awaited map[string]chan struct{} // by missing key; the channel is closed when the key is set
}

func newStore() *store {
	return &store{values: map[string][]byte{}, awaited: map[string]chan struct{}{}}
}

func (s *store) set(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, value)
}

// put stores a value and wakes the callers that wait for its key.
func (s *store) put(key string, value []byte) {
	s.values[key] = value
	if s.awaited[key] != nil {
		close(s.awaited[key])
		delete(s.awaited, key)
	}
}

func (s *store) get(key string) (value []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found = s.values[key]
	return value, found
}

// add adds delta to a value, which is a number in decimal digits.
func (s *store) add(key string, delta int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := delta
	if old, found := s.values[key]; found {
		number, err := strconv.ParseInt(string(old), 10, 64)
		if err != nil {
			return 0, errNoNumber
		}
		sum += number
	}
	s.put(key, strconv.AppendInt(nil, sum, 10))
	return sum, nil
}

func (s *store) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.values))
}

// await returns a channel that is closed as soon as the key exists.
func (s *store) await(key string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := s.awaited[key]
	if ready == nil {
		ready = make(chan struct{})
		s.awaited[key] = ready
	}
	if value, found := s.values[key]; found {
		s.put(key, value)
	}
	return ready
}
