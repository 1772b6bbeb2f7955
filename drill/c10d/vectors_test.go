// SPDX-License-Identifier: Apache-2.0

package c10d

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// recording is a conversation between torch's client and torch's server. oracle's TestVectors
// recorded it. To record it again, run go test -tags oracle ./oracle -vectors.
type recording struct {
	Torch      string
	Libuv      bool
	Generation facts.Generation
	Turns      []struct{ Client, Server []byte }
}

func eachRecording(t *testing.T, test func(*testing.T, recording)) {
	paths, err := filepath.Glob("testdata/torch-*.json")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d recordings, want one of every kind of server of three generations: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var r recording
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			test(t, r)
		})
	}
}

// TestServerSaysWhatTorchSaid checks that the server gives torch's client the same answers as
// torch's server, byte for byte.
func TestServerSaysWhatTorchSaid(t *testing.T) {
	eachRecording(t, func(t *testing.T, r recording) {
		_, address := serve(t, r.Generation)
		conn := call(t, address, nil)
		for i, turn := range r.Turns {
			if _, err := conn.Write(turn.Client); err != nil {
				t.Fatal(err)
			}
			data := make([]byte, len(turn.Server))
			if _, err := io.ReadFull(conn, data); err != nil || !bytes.Equal(data, turn.Server) {
				t.Fatalf("turn %d: %q and %v, torch %s said %q", i, data, err, r.Torch, turn.Server)
			}
		}
	})
}

// TestClientSaysWhatTorchSaid checks that the client sends the same bytes as torch's client, and
// understands the answers.
func TestClientSaysWhatTorchSaid(t *testing.T) {
	eachRecording(t, func(t *testing.T, r recording) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		heard := make(chan error, 1)
		go func() {
			defer theirs.Close()
			heard <- r.replay(theirs)
		}()
		client := NewClient(ours, r.Generation)
		ctx := patient(t)
		nonce := uint32(0)
		if r.Generation == facts.GenerationPings {
			nonce = binary.NativeEndian.Uint32(r.Turns[0].Client[len(greeting())+1:])
		}
		greet(t, client, nonce)
		answers, err := script(ctx, client, r.Generation)
		client.Close()
		if data := <-heard; data != nil || err != nil {
			t.Fatalf("after %v: %v; %v", answers, data, err)
		}
		if diff := cmp.Diff(scriptAnswers(r.Generation), answers); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// replay plays the server's part of the conversation.
func (r recording) replay(conn net.Conn) error {
	for i, turn := range r.Turns {
		data := make([]byte, len(turn.Client))
		if n, err := io.ReadFull(conn, data); err != nil || !bytes.Equal(data, turn.Client) {
			return fmt.Errorf("turn %d: our client said %q and %v, torch's %q", i, data[:n], err, turn.Client)
		}
		if _, err := conn.Write(turn.Server); err != nil {
			return err
		}
	}
	return nil
}
