// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"
	"errors"
	"net"
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
func (s *Server) Set(key string, value []byte) error {
	return s.store.set([]string{key}, [][]byte{value})
}
