package testhosts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// key keeps the private half beside its ssh.Signer, for writing it down.
type key struct {
	ssh.Signer
	private crypto.Signer
}

func generateEd25519() (key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return key{}, err
	}
	return toSSH(private)
}

func generateECDSA() (key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return key{}, err
	}
	return toSSH(private)
}

func toSSH(private crypto.Signer) (key, error) {
	signer, err := ssh.NewSignerFromSigner(private)
	return key{signer, private}, err
}

// files returns the texts of the two files OpenSSH keeps a key in.
func (k key) files(comment string) (private, public []byte, err error) {
	block, err := ssh.MarshalPrivateKey(k.private, comment)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(k.PublicKey()), nil
}

// must makes a key for a test, with generateEd25519 or generateECDSA.
func must(t testing.TB, generate func() (key, error)) key {
	t.Helper()
	k, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// knownLine is the known_hosts line of a host at these addresses (host:port).
func knownLine(addresses []string, public ssh.PublicKey) string {
	return knownhosts.Line(addresses, public) + "\n"
}
