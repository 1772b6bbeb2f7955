// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"preflight/facts"
)

var vectors = flag.Bool("vectors", false, "record what torch says to torch into drill/c10d/testdata")

// recording is one connection between a client and a server of the same torch.
type recording struct {
	Torch      string           `json:"torch"`
	Libuv      bool             `json:"libuv"` // the kind of server
	Generation facts.Generation `json:"generation"`
	Turns      []turn           `json:"turns"`
}

// turn holds the data that one side sent before the other side sent data. Only one of the two
// fields is set.
type turn struct {
	Client []byte `json:"client,omitempty"`
	Server []byte `json:"server,omitempty"`
}

// TestVectors records what two processes with the same torch send to each other. drill/c10d replays
// the recording against preflight's client and server.
func TestVectors(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, r release, libuv bool) {
		server, client := r.start(t), r.start(t)
		proxy := between(t, server.serve(libuv))
		converse(t, client, proxy.port, r.generation)
		must[any](client, order{"do": "stop"})
		turns := proxy.finish(t)
		if len(turns) < 10 {
			t.Fatalf("only %d turns were recorded", len(turns))
		}
		if !*vectors {
			return
		}
		text, err := json.MarshalIndent(recording{client.version, libuv, r.generation, turns}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("../drill/c10d/testdata", fmt.Sprintf("torch-%s-libuv-%t.json", r.name, libuv))
		if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	})
}

// proxy forwards connections and records the data.
type proxy struct {
	port     int
	listener net.Listener
	all      sync.WaitGroup

	mu    sync.Mutex
	turns [][]turn // the recorded turns, by connection
}

func between(t *testing.T, to int) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{port: listener.Addr().(*net.TCPAddr).Port, listener: listener}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", to))
			if err != nil {
				from.Close()
				continue
			}
			p.mu.Lock()
			number := len(p.turns)
			p.turns = append(p.turns, nil)
			p.mu.Unlock()
			p.all.Go(func() { p.pass(number, from, server, true) })
			p.all.Go(func() { p.pass(number, server, from, false) })
		}
	}()
	return p
}

func (p *proxy) pass(number int, from, to net.Conn, client bool) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.note(number, client, buffer[:n])
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// note adds data to the current turn, or starts a new turn if the other side sent the last data.
func (p *proxy) note(number int, client bool, said []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	turns := p.turns[number]
	if len(turns) == 0 || (turns[len(turns)-1].Client != nil) != client {
		turns = append(turns, turn{})
	}
	last := &turns[len(turns)-1]
	if client {
		last.Client = append(last.Client, said...)
	} else {
		last.Server = append(last.Server, said...)
	}
	p.turns[number] = turns
}

// finish returns the turns of the only connection with data. The oldest generation opens a second
// connection, for callbacks.
func (p *proxy) finish(t *testing.T) []turn {
	t.Helper()
	p.listener.Close()
	p.all.Wait()
	var spoken []turn
	for _, turns := range p.turns {
		if len(turns) > 0 && spoken != nil {
			t.Fatal("two connections were spoken on")
		} else if len(turns) > 0 {
			spoken = turns
		}
	}
	return spoken
}
