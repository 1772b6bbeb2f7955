// SPDX-License-Identifier: Apache-2.0

//go:build oracle

package oracle_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"preflight/drill"
	ours "preflight/drill/c10d"
	"preflight/facts"
)

func identify(t *testing.T, port int) facts.Endpoint {
	t.Helper()
	return identifyWithin(t, port, 4*time.Second)
}

func identifyWithin(t *testing.T, port int, limit time.Duration) facts.Endpoint {
	t.Helper()
	return drill.Identify(t.Context(), fmt.Sprintf("127.0.0.1:%d", port), limit)
}

// TestIdentify checks that every kind of store is recognized, and that the contents of the store
// are counted.
func TestIdentify(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, r release, libuv bool) {
		server := r.start(t)
		port := server.serve(libuv)
		for _, key := range []string{"a", "b", "c"} {
			must[any](server, order{"do": "set", "key": key, "value": "x"})
		}
		keys := must[int64](server, order{"do": "num_keys"})
		seen := identify(t, port)
		if seen.Store != r.generation || seen.Failed != "" || seen.Keys != keys {
			t.Errorf("torch %s: %+v, want a store of %s with %d keys", r.name, seen, r.generation, keys)
		}
	})
}

// TestIdentifyDisturbsNoJob identifies the store of a job a hundred times while the job waits for
// its last rank. After that the job must complete undisturbed.
//
// The older kind of server looks up the name of every client in its only thread. glibc waits five
// seconds for a name server that drops a request. The connections are made one after another,
// because name servers drop requests that come in bursts.
func TestIdentifyDisturbsNoJob(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, r release, libuv bool) {
		port := freePort(t)
		meet(t, r, order{"port": port, "libuv": libuv, "seconds": 300}, func() {
			awaitListener(t, port)
			atOnce := 1
			if libuv {
				atOnce = 5
			}
			var all sync.WaitGroup
			for range atOnce {
				all.Go(func() {
					for i := range 100 / atOnce {
						// A busy machine may delay Python's store by some seconds.
						if seen := identifyWithin(t, port, time.Minute); seen.Store != r.generation || seen.Failed != "" {
							t.Errorf("probe %d: %+v", i, seen)
						}
					}
				})
			}
			all.Wait()
		})
	})
}

// TestIdentifyOfAStoppedStore identifies a store that is stopped and does not answer. A store of
// the oldest generation must survive all requests, although preflight may mistake it for a newer
// one. The test checks the store's memory, because the oldest generation would read a VALIDATE
// request as a key of several terabytes.
func TestIdentifyOfAStoppedStore(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, r release, libuv bool) {
		server := r.start(t)
		port := server.serve(libuv)
		must[any](server, order{"do": "set", "key": "a", "value": "x"})
		if err := server.process.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if seen := identify(t, port); seen.Outcome != facts.PathSilent || seen.Failed != facts.HopValidate {
			t.Errorf("stopped: %+v", seen)
		}
		if err := server.process.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if seen := identify(t, port); seen.Store != r.generation {
			t.Errorf("going on: %+v", seen)
		}
		converse(t, r.start(t), port, r.generation)
	})
}

// These are the possible results if a client connects to a server of another generation.
const (
	works   = "works"
	reset   = "is hung up on when it asks"
	retries = "tries to connect until its time is up"
	hangs   = "waits for an answer for ever"
	byParts = hangs + ", or works" // depends on how the client's request is split into packets, see TestAddOfTheOldest
)

func TestMixedGenerations(t *testing.T) {
	tests := []struct {
		serving string
		libuv   bool
		calling string
		want    string
	}{
		{"1.13", false, "2.4", reset},
		{"1.13", false, "2.15", retries},
		{"2.4", false, "1.13", reset},
		{"2.4", false, "2.15", retries},
		{"2.4", true, "1.13", byParts},
		{"2.4", true, "2.15", retries},
		{"2.15", false, "1.13", reset},
		{"2.15", false, "2.4", works},
		{"2.15", true, "1.13", byParts},
		{"2.15", true, "2.4", works},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s calls %s libuv=%t", tt.calling, tt.serving, tt.libuv), func(t *testing.T) {
			t.Parallel() // the rows mostly wait
			server, client := named(tt.serving).start(t), named(tt.calling).start(t)
			port := server.serve(tt.libuv)
			if got, words := meetOther(t, client, port); got != tt.want && (tt.want != byParts || got != hangs && got != works) {
				t.Errorf("a client of torch %s %s (%s), want: %s", tt.calling, got, words, tt.want)
			} else {
				t.Log(words)
			}
			// Whatever the client has sent, the server must still serve clients of its own
			// generation.
			converse(t, named(tt.serving).start(t), port, named(tt.serving).generation)
		})
	}
}

// TestAddOfTheOldest checks how a libuv store handles the add request of the oldest torch. The
// store reads the add as a get, and does not read the number after the key. If the request arrives
// in one packet, the store stops answering. If it arrives in two packets, the store answers the get
// for a missing key, which the client reads as 0. After that the store closes the connection.
func TestAddOfTheOldest(t *testing.T) {
	t.Parallel()
	request := []byte("\x03\x03\x00\x00\x00\x00\x00\x00\x00/n1\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, name := range []string{"2.4", "2.15"} {
		port := named(name).start(t).serve(true)
		for parts, want := range map[int]string{1: "", 2: "\x00\x00\x00\x00\x00\x00\x00\x00"} {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for part := range slices.Chunk(request, len(request)/parts) {
				if _, err := conn.Write(part); err != nil {
					t.Fatal(err)
				}
				time.Sleep(300 * time.Millisecond) // sends each part in its own packet
			}
			if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if hangsUp := !errors.Is(err, os.ErrDeadlineExceeded); string(answer) != want || hangsUp != (parts == 2) {
				t.Errorf("torch %s, in %d parts: %q, %v; want %q", name, parts, answer, err, want)
			}
		}
	}
}

// meetOther lets a client connect to a server with a short timeout and send a request. It returns
// the result and torch's message.
func meetOther(t *testing.T, client *torch, port int) (outcome, words string) {
	t.Helper()
	const connecting = 4 * time.Second
	began := time.Now()
	_, err := ask[any](client, order{"do": "dial", "port": port, "seconds": connecting.Seconds()})
	if err != nil && time.Since(began) >= connecting {
		return retries, err.Error()
	}
	if err == nil {
		client.send(order{"do": "add", "key": "n", "delta": 0})
		answered := make(chan error, 1)
		go func() { answered <- client.receive(new(any)) }()
		select {
		case err = <-answered:
		case <-time.After(connecting):
			return hangs, ""
		}
	}
	if err != nil {
		return reset, err.Error()
	}
	return works, ""
}

func named(name string) release {
	for _, r := range releases() {
		if r.name == name {
			return r
		}
	}
	panic("no release " + name)
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := ours.Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// awaitListener waits until a process listens on a port, without sending anything to it.
func awaitListener(t *testing.T, port int) {
	t.Helper()
	for end := time.Now().Add(3 * patience); ; {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
