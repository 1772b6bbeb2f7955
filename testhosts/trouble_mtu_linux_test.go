package testhosts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Full packets of the other nodes vanish, small ones and all of the head's pass.
func TestNarrowPeers(t *testing.T) {
	c := raise(t, 3)
	w2 := c.Nodes[1]
	// sshd hangs up on a line that is too long, once it has got it.
	const cross = `python3 -c 'import socket
s = socket.create_connection(("w2", 22), 5); s.recv(9); s.settimeout(2)
s.sendall(b"A" * 9000)
try:
  while s.recv(9999): pass
except ConnectionResetError: pass
except TimeoutError: print("lost"); raise SystemExit
print("crossed")'`
	crossings := func() map[string]string {
		came := map[string]string{"head": onHead(t, c, cross)}
		for _, n := range []int{0, 2} {
			out, err := c.Nodes[n].Run(t.Context(), "/bin/sh", "-c", cross)
			if err != nil {
				t.Fatal(err)
			}
			came[c.Nodes[n].Name] = out
		}
		return came
	}
	fine := map[string]string{"head": "crossed\n", "w1": "crossed\n", "w3": "crossed\n"}
	healthy := wiring(t, c)
	undo, err := w2.NarrowPeers(t.Context(), 1300)
	if err != nil {
		t.Fatal(err)
	}
	planted := crossings()
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"head": "crossed\n", "w1": "lost\n", "w3": "lost\n"}, planted); diff != "" {
		t.Errorf("planted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fine, crossings()); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(healthy, wiring(t, c)); diff != "" {
		t.Errorf("left behind (-before +after):\n%s", diff)
	}
}
