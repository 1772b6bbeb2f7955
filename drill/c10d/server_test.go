// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"preflight/facts"
)

// Strangers are treated as torch's servers treat them.
func TestStrangers(t *testing.T) {
	tests := []struct {
		name       string
		generation facts.Generation
		wire       string
		hangsUp    bool
	}{
		{"an old client at libuv's server", facts.GenerationPings, "\x03", false},
		{"a web browser at libuv's server", facts.GenerationPings, "GET / HTTP/1.1\r\n", false},
		{"wrong magic at libuv's server", facts.GenerationPings, "\x00\x01\x02\x03\x04", false},
		{"an old client", facts.GenerationValidates, "\x03", true},
		{"wrong magic", facts.GenerationValidates, "\x00\x01\x02\x03\x04", true},
		{"a new client at an old server", facts.GenerationLegacy, string(greeting()) + "\x0d\x01\x00\x00\x00", true},
		{"PING before 2.5", facts.GenerationValidates, string(greeting()) + "\x0d\x01\x00\x00\x00", true},
		{"an unknown type", facts.GenerationPings, string(greeting()) + "\xff", true},
		{"WATCH_KEY after 2.0", facts.GenerationPings, string(greeting()) + "\x13", true},
		{"adding to what is no number", facts.GenerationPings, string(greeting()) + "\x04\x04\x00\x00\x00\x00\x00\x00\x00text\x01\x00\x00\x00\x00\x00\x00\x00", true},
		{"a missing key in 2.1", facts.GenerationValidates, string(greeting()) + "\x03\x01\x00\x00\x00\x00\x00\x00\x00k", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server, address := serve(t, tt.generation)
			if err := server.Set("text", []byte("no number")); err != nil {
				t.Fatal(err)
			}
			conn := call(t, address, []byte(tt.wire))
			if !tt.hangsUp {
				if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
			}
			said, err := io.ReadAll(conn)
			hungUp := err == nil || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "reset")
			if len(said) > 0 || hungUp != tt.hangsUp {
				t.Errorf("said %q, then %v; want it to hang up: %t", said, err, tt.hangsUp)
			}
			if _, err := dial(t, address, tt.generation).NumKeys(patient(t)); err != nil {
				t.Errorf("others are not served any more: %v", err)
			}
		})
	}
}

// Two clients of the oldest generation's: one to ask, one to be called back on.
func TestWatchKeyIsAcknowledged(t *testing.T) {
	_, address := serve(t, facts.GenerationLegacy)
	conn := call(t, address, append([]byte{legacyWatchKey}, putString(nil, "k")...))
	var said [1]byte
	if _, err := io.ReadFull(conn, said[:]); err != nil || said[0] != replyRegistered {
		t.Errorf("WATCH_KEY is answered with %d: %v", said, err)
	}
}

// A store keeps to its size, and those who would fill it are hung up on.
func TestStoreIsBounded(t *testing.T) {
	server, address := serve(t, facts.GenerationPings)
	const stored = maxStore/maxValue - 4 // from this side, so that less has to travel
	for i := range stored {
		if err := server.Set(fmt.Sprint("stored", i), make([]byte, maxValue)); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for i := range 6 { // of which each takes twice its room until it is answered
		client := dial(t, address, facts.GenerationPings)
		all.Go(func() {
			if err := client.Set(patient(t), fmt.Sprint(i), make([]byte, maxValue)); err == nil {
				_, _ = client.NumKeys(patient(t)) // when it is answered or hung up on, the value has arrived
			}
		})
	}
	all.Wait()
	server.store.mu.Lock()
	held := server.store.held
	server.store.mu.Unlock()
	if held > maxStore || held < (stored+1)*maxValue {
		t.Errorf("%d bytes are held, want at most %d and one value more than the %d", held, maxStore, stored)
	}
	client := dial(t, address, facts.GenerationPings)
	if deleted, err := client.DeleteKey(patient(t), "stored0"); !deleted || err != nil {
		t.Errorf("a full store cannot be emptied: %t, %v", deleted, err)
	}
}

// What a request held while it arrived is given back when it has been answered.
func TestRoomIsGivenBack(t *testing.T) {
	_, address := serve(t, facts.GenerationPings)
	client := dial(t, address, facts.GenerationPings)
	for range 3 * maxStore / maxValue {
		if err := client.Set(patient(t), "k", make([]byte, maxValue)); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := client.NumKeys(patient(t)); keys != 1 || err != nil {
		t.Errorf("one key set again and again: %d keys, %v", keys, err)
	}
}

// A server that ends hangs up on those who only listen, and on those who wait.
func TestServerEndsWithItsCallers(t *testing.T) {
	listener, err := Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(facts.GenerationPings)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, listener) }()
	address := fmt.Sprintf("127.0.0.1:%d", listener.Addr().(*net.TCPAddr).Port)
	idle, waiting := dial(t, address, facts.GenerationPings), dial(t, address, facts.GenerationPings)
	stranger := call(t, address, []byte("GET / HTTP/1.1\r\n"))
	gone := make(chan error)
	go func() { gone <- waiting.Wait(patient(t), "k") }()
	awaitWaiters(t, server, "k", 1)
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on for its callers")
	}
	if err := <-gone; err == nil {
		t.Error("a wait ended as if its key had come")
	}
	if _, err := idle.NumKeys(patient(t)); err == nil {
		t.Error("a connection outlived the server")
	}
	if _, err := stranger.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a stranger's connection outlived the server")
	}
}

func TestListenOnAHeldPort(t *testing.T) {
	listener, err := Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = Listen(t.Context(), listener.Addr().(*net.TCPAddr).Port)
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a second listener: %v", err)
	}
}
