// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"preflight/drill/c10d"
	"preflight/facts"
)

func at(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func TestIdentifyStores(t *testing.T) {
	for _, g := range generations {
		t.Run(string(g), func(t *testing.T) {
			server := c10d.NewServer(g)
			for _, key := range []string{"a", "b"} {
				server.Set(key, nil)
			}
			port := serveForeign(t, server)
			got := Identify(t.Context(), at(port), 4*time.Second)
			if got.Store != g || got.Keys != 2 || got.Failed != "" || got.Error != "" {
				t.Errorf("%+v", got)
			}
			if got.Address != "127.0.0.1" || got.Source != "127.0.0.1" || got.Interface != "lo" || got.Seconds <= 0 {
				t.Errorf("by what was it called? %+v", got)
			}
		})
	}
}

// TestIdentifyWaitsForAPreflight checks that another preflight's store is not reported as the
// ranks' store. The other preflight must leave the port to the ranks' store.
func TestIdentifyWaitsForAPreflight(t *testing.T) {
	for _, g := range []facts.Generation{facts.GenerationValidates, facts.GenerationPings} {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		ports := make(chan int)
		ended := make(chan error)
		go func() {
			ended <- Host{Token: "t", Node: "w1", Generation: g}.Serve(ctx, func(s Serving) { ports <- s.Port })
		}()
		port := <-ports
		if got := Identify(t.Context(), at(port), 4*time.Second); !got.Preflight || got.Store != g || got.Waited == 0 || got.Failed != "" {
			t.Errorf("%s, while it is there: %+v", g, got)
		}
		time.AfterFunc(time.Second, leave)
		if got := Identify(t.Context(), at(port), 10*time.Second); got.Preflight || got.Outcome != facts.PathRefused || got.Waited == 0 {
			t.Errorf("%s, when it has left: %+v", g, got)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestIdentifyWhatIsNoStore(t *testing.T) {
	httpServer := func(conn net.Conn) { // this server answers invalid requests at once
		_, _ = conn.Read(make([]byte, 100))
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
	}
	eightBytes := func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 100))
		_, _ = io.WriteString(conn, "no count")
	}
	tests := []struct {
		name     string
		endpoint string
		hop      facts.Hop
		outcome  facts.PathOutcome
		problem  string
		greeting string
	}{
		{"no port", "w1", facts.HopResolve, "", "missing port", ""},
		{"a port that is none", "w1:99999", facts.HopResolve, "", "99999 is not a port", ""},
		{"a name nobody knows", "w9.invalid:1", facts.HopResolve, "", "no such host", ""},
		{"nobody listens", at(deadPort), facts.HopConnect, facts.PathRefused, "connection refused", ""},
		{"silence", at(serveAnything(t, hush)), facts.HopValidate, facts.PathSilent, "no answer in time", ""},
		{"hangs up at once", at(serveAnything(t, func(net.Conn) {})), facts.HopValidate, facts.PathReset, "EOF", ""},
		{"hangs up when spoken to", at(serveAnything(t, hangUp)), facts.HopValidate, facts.PathReset, "", ""},
		{"an ssh server", at(serveAnything(t, sshServer)), facts.HopValidate, facts.PathStranger, "another server", "SSH-2.0-OpenSSH_9.2p1"},
		{"eight bytes that count nothing", at(serveAnything(t, eightBytes)), facts.HopValidate, facts.PathStranger, "another server", "no count"},
		{"a web server", at(serveAnything(t, httpServer)), facts.HopValidate, facts.PathStranger, "another server", "HTTP/1.1 400 Bad Request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Identify(t.Context(), tt.endpoint, 2*time.Second)
			if got.Failed != tt.hop || got.Outcome != tt.outcome || !strings.Contains(got.Error, tt.problem) || got.Error == "" {
				t.Errorf("%s, %s, %q; want %s, %s, %q", got.Failed, got.Outcome, got.Error, tt.hop, tt.outcome, tt.problem)
			}
			if got.Greeting != tt.greeting || got.Store != "" {
				t.Errorf("greeting %q, store %q", got.Greeting, got.Store)
			}
		})
	}
}

// TestIdentifyASlowOldStore checks that an old store that is too slow is still recognised by its
// answer. It must receive nothing that it could read as a length.
func TestIdentifyASlowOldStore(t *testing.T) {
	var mu sync.Mutex
	longest := 0
	port := serveAnything(t, func(conn net.Conn) {
		data := make([]byte, 100)
		n, _ := conn.Read(data)
		if n == 1 && data[0] == countKeys {
			time.Sleep(countTime + 100*time.Millisecond)
			_, _ = conn.Write([]byte{5, 0, 0, 0, 0, 0, 0, 0})
		}
		for n > 0 {
			mu.Lock()
			longest = max(longest, n)
			mu.Unlock()
			more, err := conn.Read(data[n:])
			if err != nil {
				return
			}
			n += more
		}
	})
	got := Identify(t.Context(), at(port), 4*time.Second)
	if got.Store != facts.GenerationLegacy || got.Keys != 5 || got.Failed != "" {
		t.Errorf("%+v", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if longest > 8 {
		t.Errorf("it was sent %d bytes, which hold the whole length of a key", longest)
	}
}

func TestIdentifyEndsWithItsContext(t *testing.T) {
	port := serveAnything(t, hush)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Identify(ctx, at(port), time.Hour); got.Failed == "" {
		t.Errorf("%+v", got)
	}
}

func TestFirstLine(t *testing.T) {
	tests := map[string]string{
		"SSH-2.0-x\r\nmore": "SSH-2.0-x",
		"\x1b[31mred\n":     `\x1b[31mred`,
		"\xff\x00":          `\xff\x00`,
		`say "hi"`:          `say \"hi\"`,
	}
	for data, want := range tests {
		if got := firstLine([]byte(data)); got != want {
			t.Errorf("%q: %q, want %q", data, got, want)
		}
	}
}
