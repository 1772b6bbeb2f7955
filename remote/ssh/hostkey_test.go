// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"preflight/remote"
)

func ecdsaSigner(t *testing.T) ssh.Signer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// line returns a known_hosts line.
func line(name string, key ssh.PublicKey) string {
	return name + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\n"
}

// TestHostKey: the server shows an ed25519 key, and the known keys decide the result.
func TestHostKey(t *testing.T) {
	other, wrongType := newSigner(t).PublicKey(), ecdsaSigner(t).PublicKey()
	for _, test := range []struct {
		name   string
		known  func(n *node) string
		config string
		cause  remote.Cause // "" means that the key is accepted
		words  string       // words of the error, or of the note if the key was accepted
	}{
		{"known", func(n *node) string { return line(knownhosts.Normalize(n.address), n.key.PublicKey()) }, "", "", ""},
		{"known among others", func(n *node) string {
			return line("x,"+knownhosts.Normalize(n.address), other) + line("y,"+knownhosts.Normalize(n.address), n.key.PublicKey())
		}, "", "", ""},
		{"hashed", func(n *node) string {
			return line(knownhosts.HashHostname(knownhosts.Normalize(n.address)), n.key.PublicKey())
		}, "", "", ""},
		{"hashed for another", func(n *node) string { return line(knownhosts.HashHostname("w9"), n.key.PublicKey()) }, "", remote.HostKeyUnknown, "no key is known for this host"},
		{"wildcard", func(n *node) string { return line("[127.*]:*", n.key.PublicKey()) }, "", "", ""},
		{"negated", func(n *node) string { return line("*,![127.0.0.1]:*,!127.0.0.1", n.key.PublicKey()) }, "", remote.HostKeyUnknown, ""},
		{"without its port", func(n *node) string { return line("127.0.0.1", n.key.PublicKey()) }, "", "", ""},
		{"bad lines around", func(n *node) string {
			return "rubbish\n127.0.0.1 ssh-ed25519 !!!\n@nonsense * ssh-ed25519 AAAA\n" + line(knownhosts.Normalize(n.address), n.key.PublicKey())
		}, "", "", ""},
		{"alias", func(n *node) string { return line("cluster", n.key.PublicKey()) }, "HostKeyAlias Cluster", "", ""},
		{"unknown", func(*node) string { return "" }, "", remote.HostKeyUnknown, "Host key verification failed."},
		{"unknown, strict", func(*node) string { return "" }, "StrictHostKeyChecking yes", remote.HostKeyUnknown, ""},
		{"unknown, accept-new", func(*node) string { return "" }, "StrictHostKeyChecking accept-new", "", "writes nothing"},
		{"unknown, no", func(*node) string { return "" }, "StrictHostKeyChecking no", "", "ssh and preflight continue"},
		{"no file", func(n *node) string { return line(knownhosts.Normalize(n.address), n.key.PublicKey()) }, "UserKnownHostsFile none", remote.HostKeyUnknown, ""},
		{"changed", func(n *node) string { return "# first\n" + line(knownhosts.Normalize(n.address), other) }, "", remote.HostKeyChanged, ":2: ssh-ed25519 " + ssh.FingerprintSHA256(other)},
		{"changed, accept-new", func(n *node) string { return line(knownhosts.Normalize(n.address), other) }, "StrictHostKeyChecking accept-new", remote.HostKeyChanged, ""},
		{"changed, no", func(n *node) string { return line(knownhosts.Normalize(n.address), other) }, "StrictHostKeyChecking no", "", "differs"},
		{"other type", func(n *node) string { return line(knownhosts.Normalize(n.address), wrongType) }, "", remote.HostKeyOtherType, "another type"},
		{"other type, accept-new", func(n *node) string { return line(knownhosts.Normalize(n.address), wrongType) }, "StrictHostKeyChecking accept-new", remote.HostKeyOtherType, ""},
		{"revoked", func(n *node) string {
			return line(knownhosts.Normalize(n.address), n.key.PublicKey()) + "@revoked " + line("*", n.key.PublicKey())
		}, "", remote.HostKeyRevoked, ":2:"},
		{"revoked elsewhere", func(n *node) string {
			return line(knownhosts.Normalize(n.address), n.key.PublicKey()) + "@revoked " + line("w9", n.key.PublicKey())
		}, "", "", ""},
		{"an authority's key is no host's", func(n *node) string { return "@cert-authority " + line("*", n.key.PublicKey()) }, "", remote.HostKeyUnknown, ""},
		{"local, not minded", func(*node) string { return "" }, "NoHostAuthenticationForLocalhost yes", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPerson(t)
			n := startNode(t, admits(p.key.PublicKey()))
			p.write("known_hosts", test.known(n))
			p.write("config", host("w1", n.port, test.config))
			c := p.client(Options{})
			if test.cause != "" {
				e, _ := p.failed(c, "w1", time.Minute, remote.StageHostKey, test.cause, test.words)
				if e.Detail["fingerprint"] != ssh.FingerprintSHA256(n.key.PublicKey()) || e.Detail["type"] != ssh.KeyAlgoED25519 {
					t.Errorf("detail %v", e.Detail)
				}
				return
			}
			client, trace, err := c.Dial(context.Background(), "w1")
			if err != nil {
				t.Fatal(err)
			}
			client.Close()
			if output := strings.Join(trace.OpenSSH, "\n"); (test.words == "") != (output == "") || !strings.Contains(output, test.words) {
				t.Errorf("said %q, want %q", output, test.words)
			}
			if now, _ := os.ReadFile(p.path("known_hosts")); string(now) != test.known(n) && !strings.Contains(test.name, "hashed") {
				t.Errorf("known_hosts was written to")
			}
		})
	}
}

// TestHostKeyOrder: a server with two keys must show the known key, whichever key it prefers.
func TestHostKeyOrder(t *testing.T) {
	p := newPerson(t)
	server := admits(p.key.PublicKey())
	second := ecdsaSigner(t)
	server.AddHostKey(second)
	n := startNode(t, server)
	for _, key := range []ssh.PublicKey{second.PublicKey(), n.key.PublicKey()} {
		p.write("known_hosts", line(knownhosts.Normalize(n.address), key))
		p.write("config", host("w1", n.port))
		client, _, err := p.client(Options{}).Dial(context.Background(), "w1")
		if err != nil {
			t.Errorf("known by %s: %v", key.Type(), err)
			continue
		}
		client.Close()
	}
}

func TestHostCertificate(t *testing.T) {
	authority := newSigner(t)
	now := uint64(time.Now().Unix())
	for _, test := range []struct {
		name       string
		certType   uint32
		principals []string
		before     uint64
		known      string // text of the line before the authority's key
		cause      remote.Cause
	}{
		{"good", ssh.HostCert, []string{"127.0.0.1"}, now + 600, "@cert-authority *", ""},
		{"principal is a pattern", ssh.HostCert, []string{"x", "127.*"}, now + 600, "@cert-authority *", ""},
		{"for another host", ssh.HostCert, []string{"w9"}, now + 600, "@cert-authority *", remote.HostKeyUnknown},
		{"expired", ssh.HostCert, []string{"127.0.0.1"}, now - 600, "@cert-authority *", remote.HostKeyUnknown},
		{"of a user", ssh.UserCert, []string{"127.0.0.1"}, now + 600, "@cert-authority *", remote.HostKeyUnknown},
		{"authority of others", ssh.HostCert, []string{"127.0.0.1"}, now + 600, "@cert-authority w9", remote.HostKeyUnknown},
		{"authority's key as a plain one", ssh.HostCert, []string{"127.0.0.1"}, now + 600, "*", remote.HostKeyChanged},
		{"authority revoked", ssh.HostCert, []string{"127.0.0.1"}, now + 600, "@revoked *", remote.HostKeyRevoked},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPerson(t)
			key := newSigner(t)
			cert := &ssh.Certificate{Key: key.PublicKey(), CertType: test.certType, ValidPrincipals: test.principals, ValidBefore: test.before}
			if err := cert.SignCert(rand.Reader, authority); err != nil {
				t.Fatal(err)
			}
			signer, err := ssh.NewCertSigner(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			p.write("known_hosts", line(test.known, authority.PublicKey()))
			got := checkKey(p, signer.PublicKey())
			if (got == nil) != (test.cause == "") || got != nil && got.Cause != test.cause {
				t.Errorf("got %v, want %q", got, test.cause)
			}
		})
	}
}

// checkKey runs only the verifier.
func checkKey(p *person, key ssh.PublicKey) *remote.Error {
	p.write("config", host("w1", 2222))
	c := p.client(Options{})
	target, err := c.resolve(hop{name: "w1"})
	if err != nil {
		p.t.Fatal(err)
	}
	return c.verifier(target).check(nil, key)
}

// TestDialHostCertificate logs in to a server with a host certificate, negotiated by the real
// library.
func TestDialHostCertificate(t *testing.T) {
	p := newPerson(t)
	authority, key := newSigner(t), newSigner(t)
	cert := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"127.0.0.1"}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server := admits(p.key.PublicKey())
	server.AddHostKey(signer)
	n := startNode(t, server)
	p.write("known_hosts", "@cert-authority "+line("*", authority.PublicKey()))
	p.write("config", host("w1", n.port))
	client, _, err := p.client(Options{}).Dial(context.Background(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
}

func TestKnownHostsUnreadable(t *testing.T) {
	p := newPerson(t)
	os.Mkdir(p.path("known_hosts"), 0o700) // a directory can be opened but not read
	e := checkKey(p, newSigner(t).PublicKey())
	if e == nil || e.Cause != remote.HostsUnreadable || !strings.Contains(e.Error(), "could not be read") {
		t.Errorf("got %v", e)
	}
}

// BenchmarkKnownHosts: thousands of nodes need the same file. It is read once, and most lines are
// found by name.
func BenchmarkKnownHosts(b *testing.B) {
	path := filepath.Join(b.TempDir(), "known_hosts")
	signer := newSigner(b)
	var text strings.Builder
	for i := range 10000 {
		fmt.Fprint(&text, line("w"+strconv.Itoa(i), signer.PublicKey()))
	}
	os.WriteFile(path, []byte(text.String()), 0o600)
	var k knownHosts
	for b.Loop() {
		if keys, _ := k.lookup([]string{path}, "w9999"); len(keys) != 1 {
			b.Fatal(keys)
		}
	}
}
