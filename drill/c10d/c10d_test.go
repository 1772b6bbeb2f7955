// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

var generations = []facts.Generation{facts.GenerationLegacy, facts.GenerationValidates, facts.GenerationPings}

// patience is far longer than any step of these tests takes if it works.
const patience = 10 * time.Second

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// serve serves an empty store until the test ends, and then checks that nothing is left behind.
func serve(t *testing.T, g facts.Generation) (server *Server, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = NewServer(g)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener is not closed: %v", err)
		}
	})
	return server, listener.Addr().String()
}

// dial connects to a store, and begins like a rank of the generation.
func dial(t *testing.T, address string, g facts.Generation) *Client {
	t.Helper()
	client := NewClient(call(t, address, nil), g)
	greet(t, client, 1)
	return client
}

func greet(t *testing.T, client *Client, nonce uint32) {
	t.Helper()
	client.Validate()
	if client.generation == facts.GenerationPings {
		if err := client.Ping(patient(t), nonce); err != nil {
			t.Fatal(err)
		}
	}
}

// call opens a connection and writes raw bytes.
func call(t *testing.T, address string, wire []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(wire); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestOperations(t *testing.T) {
	for _, g := range generations {
		t.Run(string(g), func(t *testing.T) {
			_, address := serve(t, g)
			ctx, client := patient(t), dial(t, address, g)
			got, err := script(ctx, client, g)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(scriptAnswers(g), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
