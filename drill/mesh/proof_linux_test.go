// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"testing"
)

// proves has a node listen with a secret until the test ends.
func proves(t *testing.T, node, address, secret string) Peer {
	t.Helper()
	listener, err := Open(Listen{Token: "token", Secret: secret, Node: node, Addresses: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { listener.Serve(ctx); close(served) }()
	t.Cleanup(func() { cancel(); <-served })
	return Peer{Name: node, Address: address, Ports: listener.Listening()[0].Ports}
}

// TestProofs: whom a node was answered by it proves by what only that one could tell it and
// nobody else; also where that is not whom it called.
func TestProofs(t *testing.T) {
	w1, w2 := proves(t, "w1", "127.0.0.2", "secret of w1"), proves(t, "w2", "127.0.0.3", "secret of w2")
	astray := Peer{Name: "w3", Address: w2.Address, Ports: w2.Ports}
	for _, caller := range []string{"w1", "w2"} {
		for _, all := range []bool{false, true} {
			called := Calls{Deadline: callsTime, Token: "token", Node: caller, Peers: []Peer{w1, w2, astray}, AllPorts: all}.Run(t.Context())
			for peer, secret := range map[string]string{"w1": "secret of w1", "w2": "secret of w2", "w3": "secret of w2"} {
				if got, want := called.Proofs[peer], Proof(secret, caller); got != want {
					t.Errorf("%s has %q of %s, want %q", caller, got, peer, want)
				}
			}
			if len(called.Failed) != 1 || called.Failed[0].Answered != "w2" {
				t.Errorf("%+v", called.Failed)
			}
		}
	}
	if Proof("secret of w1", "w1") == Proof("secret of w1", "w2") || Proof("secret of w1", "w1") == Proof("secret of w2", "w1") {
		t.Error("what one was told proves something for another")
	}
}
