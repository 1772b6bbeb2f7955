// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"preflight/facts"
)

// admitting returns a store that only callers who know "ours" may use. It also returns the number
// of ranks that the store has met.
func admitting(t *testing.T, g facts.Generation) (server *Server, address string, met *atomic.Int32) {
	t.Helper()
	listener, err := Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	server, met = NewServer(g), &atomic.Int32{}
	server.Set("ours", nil)
	server.AdmitOnly("ours", func(netip.Addr) { met.Add(1) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return server, net.JoinHostPort("127.0.0.1", port), met
}

// enters begins like a node of this run, calling from an address of this machine.
func enters(t *testing.T, from, address string, g facts.Generation) *Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(patient(t), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(conn, g)
	t.Cleanup(func() { client.Close() })
	client.Validate()
	if there, err := client.Check(patient(t), "ours"); err != nil || !there {
		t.Fatalf("one of ours: %v, %v", there, err)
	}
	return client
}

func TestAdmission(t *testing.T) {
	validated := func(g facts.Generation, r request) string {
		return string(append(greeting(), r.encode(g)...))
	}
	legacy := func(r request) string { return string(r.encode(facts.GenerationLegacy)) }
	add := request{query: queryAdd, keys: []string{"init/"}, delta: 1}
	first := string(putString(putString(putString(nil, "/torch.rendezvous.none"), ""), "x")) // the beginning of a COMPARE_SET
	pings, validates := facts.GenerationPings, facts.GenerationValidates
	for _, g := range []facts.Generation{facts.GenerationLegacy, validates, pings} {
		t.Run(string(g), func(t *testing.T) {
			server, address, met := admitting(t, g)
			for name, caller := range map[string]struct {
				says string
				rank bool
			}{
				"a rank of 2.5 and newer":          {validated(pings, request{query: queryPing, nonce: 7}), true},
				"a rank of 2.1 to 2.4":             {validated(validates, add), true},
				"the first of torchrun's":          {string(greeting()) + "\x02" + first, true},
				"a rank of 2.0 and older":          {legacy(add), true},
				"the first of an older torchrun's": {"\x01" + first, true},
				"a queue of 2.8":                   {string(append(greeting(), 14, 0, 0)), true},
				"a web client":                     {"GET / HTTP/1.1\r\nHost: w1\r\n\r\n", false},
				"TLS":                              {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", false},
				"an ssh client":                    {"SSH-2.0-OpenSSH_9.2\r\n", false},
				"zeros":                            {string(make([]byte, 64)), false},
				"nothing":                          {"", false},
				"one byte":                         {"\x01", false},
				"another preflight":                {validated(pings, request{query: queryCheck, keys: []string{"another's"}}), false},
				"who counts keys":                  {validated(pings, request{query: queryNumKeys}), false},
				"who seeks a million keys":         {validated(pings, request{query: queryCheck}) + "\x00\x00\x00\x40", false},
			} {
				before := met.Load()
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, caller.says); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				conn.(*net.TCPConn).CloseWrite()
				conn.SetReadDeadline(time.Now().Add(time.Minute))
				_, _ = io.Copy(io.Discard, conn) // until the connection is closed
				conn.Close()
				if told := met.Load() > before; told != caller.rank {
					t.Errorf("%s: told of a rank %v, want %v", name, told, caller.rank)
				}
			}
			if keys := server.store.count(); keys != 1 {
				t.Errorf("strangers left %d keys", keys-1)
			}
			if _, err := enters(t, "127.0.0.1", address, g).Add(patient(t), "n", 1); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBusyCallers checks a server that all nodes call at the same time. It must close no
// connection, and must let busy callers speak late.
func TestBusyCallers(t *testing.T) {
	_, address, _ := admitting(t, facts.GenerationPings)
	var callers []*Client
	for range 600 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		client := NewClient(conn, facts.GenerationPings)
		defer client.Close()
		callers = append(callers, client)
	}
	for i, client := range callers {
		client.Validate()
		if there, err := client.Check(patient(t), "ours"); err != nil || !there {
			t.Fatalf("caller %d: %v, %v", i, there, err)
		}
	}
}

// TestLateCaller checks that a caller may stay silent for longer than proofTime before its first
// byte.
func TestLateCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(facts.GenerationPings)
		server.Set("ours", nil)
		server.AdmitOnly("ours", func(netip.Addr) { t.Error("it is taken for a rank") })
		here, there := net.Pipe()
		go server.converse(t.Context(), there)
		time.Sleep(2 * proofTime)
		client := NewClient(here, facts.GenerationPings)
		defer client.Close()
		client.Validate()
		if there, err := client.Check(t.Context(), "ours"); err != nil || !there {
			t.Error(there, err)
		}
		time.Sleep(2 * proofTime)
		if _, err := client.Add(t.Context(), "n", 1); err != nil {
			t.Error(err)
		}
	})
}
