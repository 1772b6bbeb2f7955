// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"preflight/facts"
)

// TestWaitEnds checks that a wait ends when its last key is set in any way, including by the server
// itself.
func TestWaitEnds(t *testing.T) {
	ways := map[string]func(ctx context.Context, c *Client, s *Server) error{
		"set":        func(ctx context.Context, c *Client, _ *Server) error { return c.Set(ctx, "k", nil) },
		"add":        func(ctx context.Context, c *Client, _ *Server) error { _, err := c.Add(ctx, "k", 1); return err },
		"the server": func(_ context.Context, _ *Client, s *Server) error { s.Set("k", nil); return nil },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			server, address := serve(t, facts.GenerationPings)
			ctx, setter := patient(t), dial(t, address, facts.GenerationPings)
			waiting := dial(t, address, facts.GenerationPings)
			ended := make(chan error, 1)
			go func() { ended <- waiting.Wait(ctx, "there", "k") }()
			if err := setter.Set(ctx, "there", nil); err != nil {
				t.Fatal(err)
			}
			awaitWaiter(t, server, "k")
			if len(ended) > 0 {
				t.Fatal("a wait ended before its last key was there")
			}
			if err := way(ctx, setter, server); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitIsGivenUp checks that a caller that gives up its wait is released, while other callers
// keep waiting.
func TestWaitIsGivenUp(t *testing.T) {
	for _, g := range generations {
		server := NewServer(g)
		ours, theirs := net.Pipe()
		ended := make(chan struct{})
		go func() { defer close(ended); server.converse(t.Context(), theirs) }()
		client := NewClient(ours, g)
		client.Validate()
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := client.Wait(short, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the context's end", g, err)
		}
		select {
		case <-ended:
		case <-time.After(patience):
			t.Errorf("%s: the store holds the connection of a caller that has gone", g)
		}
	}
}

// awaitWaiter waits until a caller waits for a key.
func awaitWaiter(t *testing.T, server *Server, key string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		server.store.mu.Lock()
		awaited := server.store.awaited[key] != nil
		server.store.mu.Unlock()
		if awaited {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nobody waits for %q", key)
		}
	}
}

// TestContextFreesTheClient checks that every method returns when its context ends, even if the
// other end is frozen.
func TestContextFreesTheClient(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // this listener accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	methods := map[string]func(context.Context, *Client) error{
		"ping":   func(ctx context.Context, c *Client) error { return c.Ping(ctx, 7) },
		"get":    func(ctx context.Context, c *Client) error { _, err := c.Get(ctx, "k"); return err },
		"check":  func(ctx context.Context, c *Client) error { _, err := c.Check(ctx, "k"); return err },
		"number": func(ctx context.Context, c *Client) error { _, err := c.NumKeys(ctx); return err },
		"wait":   func(ctx context.Context, c *Client) error { return c.Wait(ctx, "k") },
		"set": func(ctx context.Context, c *Client) error { // sends until no buffer accepts more
			for {
				if err := c.Set(ctx, "k", make([]byte, maxValue)); err != nil {
					return err
				}
			}
		},
	}
	for name, method := range methods {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			client := NewClient(conn, facts.GenerationPings)
			if err := method(ctx, client); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want the context's end", err)
			}
			if _, err := conn.Write([]byte{0}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

// TestNotAStore checks that the client recognises an answer that no store gives.
func TestNotAStore(t *testing.T) {
	for _, data := range []string{"SSH-2.0-OpenSSH_9.2p1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		methods := map[string]func(*Client) error{
			"ping":  func(c *Client) error { return c.Ping(patient(t), 1) },
			"get":   func(c *Client) error { _, err := c.Get(patient(t), "k"); return err },
			"check": func(c *Client) error { _, err := c.Check(patient(t), "k"); return err },
			"wait":  func(c *Client) error { return c.Wait(patient(t), "k") },
		}
		for name, method := range methods {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Read(make([]byte, 100)) // the server reads any request
				_, _ = theirs.Write([]byte(data))
				theirs.Close()
			}()
			if err := method(NewClient(ours, facts.GenerationPings)); !errors.Is(err, ErrNotAStore) {
				t.Errorf("%s answered with %q: %v", name, data, err)
			}
			ours.Close()
		}
	}
}
