// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"preflight/facts"
)

// A wait ends when its last key is set by whatever sets keys, the server itself too.
func TestWaitEnds(t *testing.T) {
	ways := map[string]func(ctx context.Context, c *Client, s *Server) error{
		"set":    func(ctx context.Context, c *Client, _ *Server) error { return c.Set(ctx, "k", nil) },
		"add":    func(ctx context.Context, c *Client, _ *Server) error { _, err := c.Add(ctx, "k", 1); return err },
		"append": func(ctx context.Context, c *Client, _ *Server) error { return c.Append(ctx, "k", nil) },
		"multi_set": func(ctx context.Context, c *Client, _ *Server) error {
			return c.MultiSet(ctx, []string{"k"}, [][]byte{nil})
		},
		"compare_set": func(ctx context.Context, c *Client, _ *Server) error {
			_, err := c.CompareSet(ctx, "k", nil, nil)
			return err
		},
		"the server": func(_ context.Context, _ *Client, s *Server) error { return s.Set("k", nil) },
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
			awaitWaiters(t, server, "k", 1)
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

// awaitWaiters waits until so many wait for a key.
func awaitWaiters(t *testing.T, server *Server, key string, want int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		server.store.mu.Lock()
		waiting := len(server.store.waiting[key])
		server.store.mu.Unlock()
		if waiting == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d wait for %q, want %d", waiting, key, want)
		}
	}
}

// Whoever gives a wait up can go on, except in the oldest generation.
func TestWaitIsGivenUp(t *testing.T) {
	for _, g := range generations {
		t.Run(string(g), func(t *testing.T) {
			server, address := serve(t, g)
			client := dial(t, address, g)
			short, cancel := context.WithCancelCause(t.Context())
			reason := errors.New("no time")
			go func() {
				awaitWaiters(t, server, "k", 1)
				cancel(reason)
			}()
			if err := client.Wait(short, "k"); !errors.Is(err, reason) {
				t.Errorf("%v, want the context's %v", err, reason)
			}
			awaitWaiters(t, server, "k", 0)
			if _, err := client.Add(patient(t), "n", 1); (err != nil) != (g == facts.GenerationLegacy) {
				t.Errorf("going on after that: %v", err)
			}
		})
	}
}

// Every method is freed by its context, though the other end be frozen.
func TestContextFreesTheClient(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes calls, and never answers
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
		"set": func(ctx context.Context, c *Client) error { // until no buffer takes more
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

// A wait that is given up just as its key comes is answered twice.
func TestWaitIsGivenUpTooLate(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	said := decoder{from: theirs}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if _, err := readRequest(said, facts.GenerationPings); err != nil {
			return // the test fails by what it is not told
		}
		cancel()
		_, _ = readRequest(said, facts.GenerationPings)
		_, _ = theirs.Write([]byte{replyStop, replyCanceled})
		time.Sleep(2 * cancelTime) // the deadline of giving up must not outlive it
		_, _ = readRequest(said, facts.GenerationPings)
		_, _ = theirs.Write(putInt(nil, 7))
	}()
	client := NewClient(ours, facts.GenerationPings)
	defer client.Close()
	if err := client.Wait(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's end", err)
	}
	if sum, err := client.Add(patient(t), "n", 1); sum != 7 || err != nil {
		t.Errorf("going on after that: %d, %v", sum, err)
	}
}

// Whoever does not confirm that a wait was given up is not asked anything more.
func TestWaitIsGivenUpAtAStranger(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = readRequest(decoder{from: theirs}, facts.GenerationPings)
		cancel()
		_, _ = readRequest(decoder{from: theirs}, facts.GenerationPings)
		_, _ = theirs.Write([]byte("?"))
	}()
	if err := NewClient(ours, facts.GenerationPings).Wait(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's end", err)
	}
	if _, err := ours.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// Whoever answers what no store answers is found out.
func TestNotAStore(t *testing.T) {
	for _, said := range []string{"SSH-2.0-OpenSSH_9.2p1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		methods := map[string]func(*Client) error{
			"ping":  func(c *Client) error { return c.Greet(patient(t), 1) },
			"get":   func(c *Client) error { _, err := c.Get(patient(t), "k"); return err },
			"check": func(c *Client) error { _, err := c.Check(patient(t), "k"); return err },
			"wait":  func(c *Client) error { return c.Wait(patient(t), "k") },
		}
		for name, method := range methods {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Read(make([]byte, 100)) // whatever was asked
				_, _ = theirs.Write([]byte(said))
				theirs.Close()
			}()
			if err := method(NewClient(ours, facts.GenerationPings)); !errors.Is(err, ErrNotAStore) {
				t.Errorf("%s answered with %q: %v", name, said, err)
			}
			ours.Close()
		}
	}
}

// slow is a connection over which WAIT takes a while to be sent.
type slow struct{ net.Conn }

func (s slow) Write(wire []byte) (int, error) {
	if query(wire[0]) == queryWait {
		time.Sleep(20 * time.Millisecond)
	}
	return s.Conn.Write(wire)
}

// Whoever has no time left for a wait does not take back what was never asked:
// the confirmation would be read as the wait's end, and every later reply as that
// of the request before it.
func TestWaitWithoutTime(t *testing.T) {
	server, address := serve(t, facts.GenerationPings)
	if err := server.Set("n", []byte("3")); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(slow{conn}, facts.GenerationPings)
	defer client.Close()
	if err := client.Greet(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		if err := client.Wait(over, key); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's end", err)
		}
		time.Sleep(50 * time.Millisecond) // in which a store would begin to wait
		if err := server.Set(key, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // and would say that it is over
		if sum, err := client.Add(patient(t), "n", 0); sum != 3 || err != nil {
			t.Fatalf("going on after that: %d, %v", sum, err)
		}
	}
}

// A wait whose time is over while it is being sent is not taken back before it.
func TestWaitIsGivenUpWhileSent(t *testing.T) {
	server, address := serve(t, facts.GenerationPings)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(slow{conn}, facts.GenerationPings)
	defer client.Close()
	if err := client.Greet(patient(t), 1); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := client.Wait(short, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's end", err)
	}
	time.Sleep(50 * time.Millisecond)
	if err := server.Set("k", nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	if sum, err := client.Add(patient(t), "n", 1); err == nil && sum != 1 {
		t.Errorf("a reply that is another's: %d", sum)
	}
}
