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
	"testing"
	"time"

	"preflight/facts"
)

// TestStrangers checks that the server treats strangers as torch's servers treat them.
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
		{"COMPARE_SET, which is not ours", facts.GenerationPings, string(greeting()) + "\x02\x01\x00\x00\x00\x00\x00\x00\x00k", true},
		{"WATCH_KEY after 2.0", facts.GenerationPings, string(greeting()) + "\x13", true},
		{"adding to what is no number", facts.GenerationPings, string(greeting()) + "\x04\x04\x00\x00\x00\x00\x00\x00\x00text\x01\x00\x00\x00\x00\x00\x00\x00", true},
		{"a missing key in 2.1", facts.GenerationValidates, string(greeting()) + "\x03\x01\x00\x00\x00\x00\x00\x00\x00k", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server, address := serve(t, tt.generation)
			server.Set("text", []byte("no number"))
			conn := call(t, address, []byte(tt.wire))
			if !tt.hangsUp {
				if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
			}
			data, err := io.ReadAll(conn)
			hungUp := err == nil || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "reset")
			if len(data) > 0 || hungUp != tt.hangsUp {
				t.Errorf("said %q, then %v; want it to hang up: %t", data, err, tt.hangsUp)
			}
			if _, err := dial(t, address, tt.generation).NumKeys(patient(t)); err != nil {
				t.Errorf("others are not served any more: %v", err)
			}
		})
	}
}

// TestServerEndsWithItsCallers checks that a server that ends closes the connections of callers
// that are idle or waiting.
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
	awaitWaiter(t, server, "k")
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
