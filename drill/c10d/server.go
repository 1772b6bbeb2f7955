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

// maxConnections is far above what a fleet needs, and far below what would
// keep the machine from its work.
const maxConnections = 32 << 10

// fullTime is the pause before the next connection is taken when no more files
// can be opened.
const fullTime = 10 * time.Millisecond

// Server is a store that others can call.
type Server struct {
	generation facts.Generation
	store      *store
	admission  *admission // nil where everybody may use it
}

// NewServer is an empty store of one generation. That of GenerationPings treats
// strangers as torch's libuv server does, the others as its older one.
func NewServer(g facts.Generation) *Server {
	return &Server{generation: g, store: newStore()}
}

// Listen opens a port as torch does, wherever its clients call: on
// all addresses of both families by one socket, and where that cannot be had on
// those of IPv4. Port 0 is a free one.
func Listen(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig // SO_REUSEADDR and the largest backlog are its own choice
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

// Serve takes calls until ctx ends, and returns when the listener, every
// connection and everything that was started for one has ended. The error is
// nil then; else it is why no more calls could be taken.
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

// Set stores a value from this side.
func (s *Server) Set(key string, value []byte) { s.store.set(key, value) }

// converse answers one caller until the connection ends. Whoever breaks the
// protocol is hung up on, as every release of torch does.
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
			_, _ = io.Copy(io.Discard, from) // libuv's server leaves strangers without an answer
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

// answerWait answers when all keys are there. It returns when the caller says more, or hangs up: at the end
// of their time all nodes give up and call once more, and files must not be held for both.
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

// carryOut returns the reply to a request, nil to one that has none.
func (s *Server) carryOut(r request) ([]byte, error) {
	switch r.query {
	case querySet:
		s.store.set(r.keys[0], r.value)
		return nil, nil
	case queryGet:
		value, found := s.store.get(r.keys[0])
		if !found && s.generation != facts.GenerationPings { // whose server returns an empty one
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

// store is the keys and values, and what is waited for. Values are never changed in place, so that
// one that was handed out stays as it was.
type store struct {
	mu      sync.Mutex
	values  map[string][]byte
	awaited map[string]chan struct{} // by key that is missing; closed when the key is set
}

func newStore() *store {
	return &store{values: map[string][]byte{}, awaited: map[string]chan struct{}{}}
}

func (s *store) set(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, value)
}

// put stores a value and wakes those who wait for its key.
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

// add counts: the value is the number in decimal digits.
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

// await returns a channel that is closed as soon as the key is there.
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
