// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Both benchmarks log in to the same in-process server. The difference between Dial and Floor is
// the cost of this package.
func BenchmarkFloor(b *testing.B) {
	p := newPerson(b)
	n := startNode(b, admits(p.key.PublicKey()))
	for b.Loop() {
		client, err := ssh.Dial("tcp", n.address, &ssh.ClientConfig{
			User: "x", Auth: []ssh.AuthMethod{ssh.PublicKeys(p.key)}, HostKeyCallback: ssh.FixedHostKey(n.key.PublicKey()),
		})
		if err != nil {
			b.Fatal(err)
		}
		client.Close()
	}
}

func BenchmarkDial(b *testing.B) {
	p := newPerson(b)
	n := startNode(b, admits(p.key.PublicKey()))
	p.knows(n)
	p.write("config", host("w1", n.port))
	c := p.client(Options{})
	for b.Loop() {
		client, _, err := c.Dial(context.Background(), "w1")
		if err != nil {
			b.Fatal(err)
		}
		client.Close()
	}
}
