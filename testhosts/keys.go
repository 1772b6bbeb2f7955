package testhosts

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// key keeps the private half beside its ssh.Signer, for writing it down.
type key struct {
	ssh.Signer
	private ed25519.PrivateKey
}

func generateKey() (key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return key{}, err
	}
	signer, err := ssh.NewSignerFromSigner(private)
	return key{signer, private}, err
}

// newKey makes a key for a test.
func newKey(t testing.TB) key {
	t.Helper()
	k, err := generateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// files returns the texts of the two files OpenSSH keeps a key in.
func (k key) files(comment string) (private, public []byte, err error) {
	block, err := ssh.MarshalPrivateKey(k.private, comment)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(k.PublicKey()), nil
}

// knownLine is the known_hosts line of a host at these addresses (host:port).
func knownLine(addresses []string, public ssh.PublicKey) string {
	return knownhosts.Line(addresses, public) + "\n"
}
