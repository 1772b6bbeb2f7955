// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"preflight/remote"
)

// site returns a person and a node that accepts the users that server accepts, with a
// configuration.
func site(t *testing.T, server *ssh.ServerConfig, config ...string) (*person, *node) {
	t.Helper()
	p := newPerson(t)
	n := startNode(t, server)
	p.knows(n)
	p.write("config", host("w1", n.port, config...))
	return p, n
}

// nobody returns the configuration of a server that accepts no key.
func nobody() *ssh.ServerConfig {
	return &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, errors.New("not this one")
	}}
}

func TestLoginRefusals(t *testing.T) {
	asksPassword := func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, errors.New("no") }
	for _, test := range []struct {
		name    string
		server  *ssh.ServerConfig
		config  string
		prepare func(*person)
		cause   remote.Cause
		words   string
		detail  map[string]string // substrings of the values
	}{
		{"refused", nobody(), "", nil, remote.KeysRefused, "accepts none of the keys offered",
			map[string]string{"offered": "id_ed25519)", "user": "", "methods": "publickey"}},
		{"no key", nobody(), "", func(p *person) { os.Remove(p.path("id_ed25519")) }, remote.NoKey, "no key to offer",
			map[string]string{"looked": "id_rsa"}},
		{"public keys off", nobody(), "PubkeyAuthentication no", nil, remote.NoKey, "disables public keys", nil},
		{"password only", &ssh.ServerConfig{PasswordCallback: asksPassword}, "", nil, remote.PasswordOnly, "accepts password only",
			map[string]string{"methods": "password"}},
		{"locked, public half unknown", nobody(), "IdentityFile ~/.ssh/locked", func(p *person) {
			os.Remove(p.path("id_ed25519"))
			p.write("locked", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n")
		}, remote.KeyLocked, "protected by a passphrase", map[string]string{"file": ".ssh/locked"}},
		{"a directory", nobody(), "", func(p *person) {
			os.Remove(p.path("id_ed25519"))
			os.Mkdir(p.path("id_ed25519"), 0o700)
		}, remote.KeyBroken, "it is a directory", map[string]string{"file": "id_ed25519", "reason": "it is a directory"}},
		{"no key in it", nobody(), "", func(p *person) { p.write("id_ed25519", "my key") }, remote.KeyBroken, "no key found", map[string]string{"file": "id_ed25519"}},
		{"in nobody's reach", nobody(), "", func(p *person) { // root could read any existing file
			os.Remove(p.path("id_ed25519"))
			os.Symlink("id_ed25519", p.path("id_ed25519"))
		}, remote.KeyUnreadable, "too many levels", map[string]string{"file": "id_ed25519", "reason": "too many levels of symbolic links"}},
		{"too open", nobody(), "", func(p *person) { os.Chmod(p.path("id_ed25519"), 0o644) }, remote.KeysRefused, "", nil},
		{"gssapi remains", func() *ssh.ServerConfig {
			c := nobody()
			c.GSSAPIWithMICConfig = &ssh.GSSAPIWithMICConfig{AllowLogin: func(ssh.ConnMetadata, string) (*ssh.Permissions, error) { return nil, nil }, Server: noGSSAPI{}}
			return c
		}(), "GSSAPIAuthentication yes", nil, remote.KeysRefused, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, _ := site(t, test.server, test.config)
			if test.prepare != nil {
				test.prepare(p)
			}
			e, trace := p.failed(p.client(Options{}), "w1", time.Minute, remote.StageLogin, test.cause, test.words)
			for key, words := range test.detail {
				if !strings.Contains(e.Detail[key], words) {
					t.Errorf("detail %s: %q, want %q", key, e.Detail[key], words)
				}
			}
			if output := strings.Join(trace.OpenSSH, ""); strings.Contains(output, "gssapi") != strings.Contains(test.config, "GSSAPI") {
				t.Errorf("said %q", output)
			}
		})
	}
}

type noGSSAPI struct{}

func (noGSSAPI) AcceptSecContext([]byte) ([]byte, string, bool, error) {
	return nil, "", false, errors.New("no")
}

func (noGSSAPI) VerifyMIC([]byte, []byte) error { return errors.New("no") }

func (noGSSAPI) DeleteSecContext() error { return nil }

// TestLoginUnusableKeyIsTheOne: the server is asked about a key that we cannot use. If the server
// would accept it, that key is the finding.
func TestLoginUnusableKeyIsTheOne(t *testing.T) {
	t.Run("too open", func(t *testing.T) {
		p, _ := site(t, nobody())
		wants := startNode(t, admits(p.key.PublicKey()))
		p.knows(wants)
		p.write("config", host("w1", wants.port))
		os.Chmod(p.path("id_ed25519"), 0o640)
		e, _ := p.failed(p.client(Options{}), "w1", time.Minute, remote.StageLogin, remote.KeyPermissions, "mode 0640")
		if e.Detail["file"] != p.path("id_ed25519") || e.Detail["mode"] != "0640" {
			t.Errorf("detail %v", e.Detail)
		}
	})
	t.Run("locked", func(t *testing.T) {
		p := newPerson(t)
		locked := p.newKey("id_rsa", "secret")
		n := startNode(t, admits(locked.PublicKey()))
		p.knows(n)
		p.write("config", host("w1", n.port))
		p.write("id_rsa.pub", string(ssh.MarshalAuthorizedKey(locked.PublicKey())))
		p.failed(p.client(Options{}), "w1", time.Minute, remote.StageLogin, remote.KeyLocked, "the server would accept the key ssh-ed25519 "+ssh.FingerprintSHA256(locked.PublicKey()))
	})
	t.Run("public half alone", func(t *testing.T) {
		p := newPerson(t)
		n := startNode(t, admits(p.key.PublicKey()))
		p.knows(n)
		p.write("config", host("w1", n.port))
		p.write("id_ed25519.pub", string(ssh.MarshalAuthorizedKey(p.key.PublicKey())))
		os.Remove(p.path("id_ed25519"))
		e, _ := p.failed(p.client(Options{}), "w1", time.Minute, remote.StageLogin, remote.NoKey, "only the public half is here")
		if want := p.path("id_ed25519") + ": only the public half is here"; e.Detail["looked"] != want {
			t.Errorf("looked at %q, want %q", e.Detail["looked"], want)
		}
	})
	t.Run("but another works", func(t *testing.T) {
		p := newPerson(t)
		locked := p.newKey("id_rsa", "secret") // this key is tried first
		p.write("id_rsa.pub", string(ssh.MarshalAuthorizedKey(locked.PublicKey())))
		n := startNode(t, &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }})
		p.knows(n)
		p.write("config", host("w1", n.port))
		client, _, err := p.client(Options{}).Dial(context.Background(), "w1")
		if err != nil {
			t.Fatal(err)
		}
		client.Close()
	})
}

func TestLoginTooManyKeys(t *testing.T) {
	server := nobody()
	server.MaxAuthTries = 2
	p, _ := site(t, server)
	for _, name := range []string{"id_rsa", "id_ecdsa"} {
		p.newKey(name, "")
	}
	e, _ := p.failed(p.client(Options{}), "w1", time.Minute, remote.StageLogin, remote.KeysRefused, "IdentitiesOnly yes")
	if !strings.Contains(e.Detail["untried"], "id_ed25519") {
		t.Errorf("detail %v", e.Detail)
	}
}

func TestLoginAccountClosed(t *testing.T) {
	for name, banner := range map[string]string{
		"by banner":  "Your account has expired; please contact your system administrator.\n\x1b[0m",
		"by nologin": "System is going down. Unprivileged users are not permitted to log in anymore.\n",
	} {
		t.Run(name, func(t *testing.T) {
			server := nobody()
			server.BannerCallback = func(ssh.ConnMetadata) string { return banner }
			p, _ := site(t, server)
			e, _ := p.failed(p.client(Options{}), "w1", time.Minute, remote.StageLogin, remote.AccountClosed, "rejects ")
			if strings.Contains(e.Error()+e.Detail["banner"], "\x1b") || e.Detail["banner"] == "" {
				t.Errorf("banner %q", e.Detail["banner"])
			}
		})
	}
	t.Run("after a good signature", func(t *testing.T) {
		server := &ssh.ServerConfig{
			PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil },
			VerifiedPublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey, *ssh.Permissions, string) (*ssh.Permissions, error) {
				return nil, errors.New("expired")
			},
		}
		p, _ := site(t, server)
		p.failed(p.client(Options{}), "w1", time.Minute, remote.StageLogin, remote.AccountClosed, "expired or locked")
	})
}

// TestLoginFreezes: a server that stops in the middle of the login costs only the node's deadline.
func TestLoginFreezes(t *testing.T) {
	release := make(chan struct{})
	server := nobody()
	server.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		<-release
		return nil, errors.New("no")
	}
	p, _ := site(t, server)
	e, _ := p.failed(p.client(Options{}), "w1", 400*time.Millisecond, remote.StageLogin, remote.Frozen, "no answer within")
	if !strings.HasSuffix(e.Detail["after"], "s") || e.Detail["after"] == "0 s" {
		t.Errorf("detail %v", e.Detail)
	}
	close(release)
}

func TestLoginSecondFactor(t *testing.T) {
	server := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{
			PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, errors.New("no") },
		}}
	}}
	p, _ := site(t, server)
	p.failed(p.client(Options{}), "w1", time.Minute, remote.StageLogin, remote.PasswordOnly, "also asks for password")
}

func TestLoginRSA(t *testing.T) {
	p := newPerson(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	p.write("id_rsa", string(pem.EncodeToMemory(block)))
	signer, _ := ssh.NewSignerFromKey(private)
	var algorithm string
	server := admits(signer.PublicKey())
	server.VerifiedPublicKeyCallback = func(_ ssh.ConnMetadata, _ ssh.PublicKey, permissions *ssh.Permissions, used string) (*ssh.Permissions, error) {
		algorithm = used
		return permissions, nil
	}
	n := startNode(t, server)
	p.knows(n)
	p.write("config", host("w1", n.port))
	client, _, err := p.client(Options{}).Dial(context.Background(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if algorithm != ssh.KeyAlgoRSASHA512 {
		t.Errorf("signed with %s", algorithm)
	}
}

func TestLoginCertificate(t *testing.T) {
	p := newPerson(t)
	authority := newSigner(t)
	cert := &ssh.Certificate{Key: p.key.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"carol"}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	checker := &ssh.CertChecker{IsUserAuthority: func(key ssh.PublicKey) bool { return equalKeys(key, authority.PublicKey()) }}
	n := startNode(t, &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate})
	p.knows(n)
	for name, test := range map[string]struct{ file, config string }{
		"beside the key": {"id_ed25519-cert.pub", ""},
		"named":          {"elsewhere.pub", "CertificateFile ~/.ssh/elsewhere.pub"},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(p.path("id_ed25519-cert.pub"))
			p.write(test.file, string(ssh.MarshalAuthorizedKey(cert)))
			p.write("config", host("w1", n.port, "User carol", test.config))
			client, _, err := p.client(Options{}).Dial(context.Background(), "w1")
			if err != nil {
				t.Fatal(err)
			}
			client.Close()
		})
	}
}

// startAgent serves keys on a socket and counts the connections to it.
func startAgent(t *testing.T, serve func(net.Conn)) (socket string, connections *atomic.Int32) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return socket, connections
}

func keyring(t *testing.T, keys ...ed25519.PrivateKey) func(net.Conn) {
	t.Helper()
	ring := agent.NewKeyring()
	for _, key := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: key, Comment: "held"}); err != nil {
			t.Fatal(err)
		}
	}
	return func(conn net.Conn) { agent.ServeAgent(ring, conn) }
}

func privateKey(t *testing.T) (ed25519.PrivateKey, ssh.PublicKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return private, signer.PublicKey()
}

// TestIdentityOrder checks the order of pubkey_prepare: the agent's keys that the configuration
// names, the agent's other keys, the keys in files.
func TestIdentityOrder(t *testing.T) {
	p := newPerson(t)
	named, namedPublic := privateKey(t)
	stray, strayPublic := privateKey(t)
	p.write("named.pub", string(ssh.MarshalAuthorizedKey(namedPublic)))
	socket, connections := startAgent(t, keyring(t, stray, named))
	for _, test := range []struct {
		config string
		want   []ssh.PublicKey
	}{
		{"", []ssh.PublicKey{namedPublic, strayPublic, p.key.PublicKey()}},
		{"IdentitiesOnly yes", []ssh.PublicKey{namedPublic, p.key.PublicKey()}},
		{"IdentityAgent none", []ssh.PublicKey{p.key.PublicKey(), namedPublic}},
	} {
		p.write("config", "IdentityFile ~/.ssh/id_ed25519\nIdentityFile ~/.ssh/named\n"+test.config+"\n")
		c := p.client(Options{AgentSocket: socket})
		target, err := c.resolve(hop{name: "w1"})
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.identities(context.Background(), target)
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, id := range list {
			got = append(got, ssh.FingerprintSHA256(id.public))
		}
		for _, key := range test.want {
			want = append(want, ssh.FingerprintSHA256(key))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q:\n%s", test.config, diff)
		}
		c.Close()
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections to the agent, want 2", n)
	}
}

func TestLoginByAgent(t *testing.T) {
	private, public := privateKey(t)
	p, _ := site(t, admits(public))
	os.Remove(p.path("id_ed25519"))
	socket, connections := startAgent(t, keyring(t, private))
	c := p.client(Options{AgentSocket: socket})
	for range 3 {
		client, _, err := c.Dial(context.Background(), "w1")
		if err != nil {
			t.Fatal(err)
		}
		client.Close()
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections to the agent", n)
	}
}

func TestLoginAgentUnreachable(t *testing.T) {
	p, _ := site(t, nobody())
	socket := filepath.Join(p.home, "gone")
	e, _ := p.failed(p.client(Options{AgentSocket: socket}), "w1", time.Minute, remote.StageLogin, remote.AgentUnreachable, "could not query")
	if e.Detail["socket"] != socket {
		t.Errorf("detail %v", e.Detail)
	}
}

// TestLoginAgentHangs: an agent that never lists its keys, or that never signs, costs a node only
// its deadline.
func TestLoginAgentHangs(t *testing.T) {
	private, public := privateKey(t)
	t.Run("listing", func(t *testing.T) {
		p, _ := site(t, admits(public))
		socket, _ := startAgent(t, stay)
		p.failed(p.client(Options{AgentSocket: socket}), "w1", 500*time.Millisecond, remote.StageLogin, remote.AgentUnreachable, "did not answer in time")
	})
	t.Run("signing", func(t *testing.T) {
		p, _ := site(t, admits(public))
		ring := agent.NewKeyring()
		if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		socket, _ := startAgent(t, func(conn net.Conn) { agent.ServeAgent(stuckAgent{ring, release}, conn) })
		c := p.client(Options{AgentSocket: socket})
		p.failed(c, "w1", 500*time.Millisecond, remote.StageLogin, remote.AgentUnreachable, "did not answer in time")
		close(release)
	})
}

// stuckAgent lists keys but does not sign before it is released.
type stuckAgent struct {
	agent.Agent
	release chan struct{}
}

func (a stuckAgent) Sign(key ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	<-a.release
	return a.Agent.Sign(key, data)
}
