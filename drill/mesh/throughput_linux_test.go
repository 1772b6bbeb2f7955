// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"net"
	"testing"
	"time"

	"preflight/facts"
)

// TestSend checks that the rate is the rate at which data arrived.
func TestSend(t *testing.T) {
	peer := listens(t, "w2", "127.0.0.4")
	began := time.Now()
	got := Send(t.Context(), "token", "w1", peer, 200*time.Millisecond)
	if got.Error != "" || got.Peer != "w2" || got.Interface != "lo" || got.Rate < 1e6 || got.Rate > 1e13 {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); got.Seconds != 0.2 || took < 200*time.Millisecond {
		t.Errorf("it took %v, and says %v s", took, got.Seconds)
	}
	// The listener must still accept calls of the mesh.
	mesh := Calls{Deadline: callsTime, Token: "token", Node: "w1", Peers: []Peer{peer}}.Run(t.Context())
	if len(mesh.Reached) != 1 {
		t.Errorf("%+v", mesh)
	}
}

func TestSendFails(t *testing.T) {
	good := listens(t, "w2", "127.0.0.5")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	at := func(port int) Peer { return Peer{Name: "w2", Address: "127.0.0.1", Ports: []int{port}} }
	tests := []struct {
		name  string
		ctx   context.Context
		token string
		to    Peer
		want  string
	}{
		{"nobody listens", t.Context(), "token", at(closedPort(t)), "connection refused"},
		{"no port", t.Context(), "token", Peer{Name: "w2"}, "w2 has not reported that it listens"},
		{"a stranger", t.Context(), "token", at(somebody(t, func(c *net.TCPConn) { c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n")) })), errStranger.Error()},
		{"another node", t.Context(), "token", Peer{Name: "w3", Address: good.Address, Ports: good.Ports}, "w2 answered"},
		{"a reset", t.Context(), "token", at(somebody(t, func(c *net.TCPConn) { c.SetLinger(0); c.Close() })), errHungUp.Error()},
		{"interrupted", ended, "token", good, "interrupted"},
	}
	for _, tt := range tests {
		got := Send(tt.ctx, tt.token, "w1", tt.to, 50*time.Millisecond)
		if want := (facts.Throughput{Peer: tt.to.Name, Error: tt.want, Seconds: got.Seconds, Interface: got.Interface}); got != want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestSendToOneThatEnds checks that a listener that ends does not wait for senders.
func TestSendToOneThatEnds(t *testing.T) {
	listener, err := Open(Listen{Token: "token", Node: "w2", Addresses: []string{"127.0.0.6"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	served := make(chan struct{})
	go func() { listener.Serve(ctx); close(served) }()
	peer := Peer{Name: "w2", Address: "127.0.0.6", Ports: listener.Listening()[0].Ports}
	began := time.Now()
	got := Send(t.Context(), "token", "w1", peer, 30*time.Second)
	<-served
	if took := time.Since(began); got.Error == "" || got.Rate != 0 || took > 10*time.Second {
		t.Errorf("after %v: %+v", took, got)
	}
}
