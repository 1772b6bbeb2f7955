// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"preflight/facts"
)

// FuzzRequest checks that any input is either refused or decoded to exactly what was sent. The
// server must answer it without harm.
func FuzzRequest(f *testing.F) {
	for _, r := range []request{
		{query: querySet, keys: []string{"k"}, value: []byte("v")},
		{query: queryGet, keys: []string{"k"}},
		{query: queryAdd, keys: []string{"k"}, delta: -3},
		{query: queryWait, keys: []string{"k", ""}},
		{query: queryPing, nonce: 7},
	} {
		f.Add(r.encode(facts.GenerationPings), false)
		f.Add(r.encode(facts.GenerationLegacy), true)
	}
	f.Add(putInt([]byte{byte(querySet)}, maxKey+1), false)
	f.Fuzz(func(t *testing.T, wire []byte, legacy bool) {
		g := facts.GenerationPings
		if legacy {
			g = facts.GenerationLegacy
		}
		from := bytes.NewReader(wire)
		r, err := readRequest(decoder{from}, g)
		if err == nil {
			if read := wire[:len(wire)-from.Len()]; !bytes.Equal(r.encode(g), read) {
				t.Errorf("%q is read as %+v", read, r)
			}
		}
		server := NewServer(g)
		ours, theirs := net.Pipe()
		ended := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(ended)
			server.converse(ctx, theirs)
		}()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		if !legacy {
			_, _ = ours.Write(greeting())
		}
		_, _ = ours.Write(wire) // the server may close the connection before the end of the input
		ours.Close()
		cancel() // ends a wait, if there is one
		<-ended
	})
}

// FuzzReply checks that a client returns whatever the answer is. It returns an error, or a value
// that a store may send.
func FuzzReply(f *testing.F) {
	f.Add(putString(nil, "value"), byte(queryGet))
	f.Add(putInt(nil, 7), byte(queryAdd))
	f.Add(putInt(nil, maxValue+1), byte(queryGet))
	f.Add([]byte{replyNotReady}, byte(queryCheck))
	f.Add([]byte{replyStop}, byte(queryWait))
	f.Add([]byte{7, 0, 0, 0}, byte(queryPing))
	f.Add([]byte("SSH-2.0-OpenSSH_9.2p1\r\n"), byte(queryGet))
	f.Fuzz(func(t *testing.T, data []byte, asked byte) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() {
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			_, _ = theirs.Write(data)
			theirs.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		client := NewClient(ours, facts.GenerationPings)
		switch query(asked) {
		case queryGet:
			if value, err := client.Get(ctx, "k"); err == nil && !bytes.Equal(putString(nil, value), data[:8+len(value)]) {
				t.Errorf("%q is read as the value %q", data, value)
			}
		case queryCheck:
			if ready, err := client.Check(ctx, "k"); err == nil && ready != (data[0] == replyReady) {
				t.Errorf("%q is read as ready: %t", data, ready)
			}
		case queryWait:
			if err := client.Wait(ctx, "k"); err == nil && data[0] != replyStop {
				t.Errorf("%q is read as the end of a wait", data)
			}
		case queryPing:
			if err := client.Ping(ctx, 7); err == nil && !bytes.Equal(data[:4], []byte{7, 0, 0, 0}) {
				t.Errorf("%q is read as an answer to 7", data)
			}
		default:
			if number, err := client.Add(ctx, "k", 1); err == nil && !bytes.Equal(putInt(nil, number), data[:8]) {
				t.Errorf("%q is read as %d", data, number)
			}
		}
		if ctx.Err() != nil {
			t.Error("it hung")
		}
	})
}
