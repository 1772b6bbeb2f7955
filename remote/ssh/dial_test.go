// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"preflight/remote"
	"preflight/testhosts/remotetest"
)

// person is a user with a home directory and a key of its own, independent of the developer's.
type person struct {
	t    testing.TB
	home string
	key  ssh.Signer
}

func newPerson(t testing.TB) *person {
	t.Helper()
	remotetest.NoLeaks(t)
	p := &person{t: t, home: t.TempDir()}
	if err := os.Mkdir(filepath.Join(p.home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.key = p.newKey("id_ed25519", "")
	return p
}

func (p *person) path(name string) string { return filepath.Join(p.home, ".ssh", name) }

func (p *person) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// newKey writes a private key, without a .pub file if it has a passphrase.
func (p *person) newKey(name, passphrase string) ssh.Signer {
	p.t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, name)
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, name, []byte(passphrase))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(name, string(pem.EncodeToMemory(block)))
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		p.t.Fatal(err)
	}
	return signer
}

func (p *person) client(o Options) *Carrier {
	p.t.Helper()
	o.Home, o.SystemConfig = p.home, filepath.Join(p.home, "etc", "ssh_config")
	if o.AgentSocket == "" {
		p.t.Setenv("SSH_AUTH_SOCK", "")
	}
	c, err := New(o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

// node is an ssh server in this process.
type node struct {
	address string
	port    int
	key     ssh.Signer
	mu      sync.Mutex
	logins  int
	present int // number of current logins
}

func newSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// listen accepts connections on a new port and passes each to serve.
func listen(t testing.TB, serve func(net.Conn)) (address string, port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var busy sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	busy.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			busy.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		busy.Wait()
	})
	return listener.Addr().String(), listener.Addr().(*net.TCPAddr).Port
}

// startNode runs a server. It accepts the users that config accepts. It also forwards connections,
// so that it can be a jump host.
func startNode(t testing.TB, config *ssh.ServerConfig) *node {
	t.Helper()
	n := &node{key: newSigner(t)}
	config.AddHostKey(n.key)
	n.address, n.port = listen(t, func(conn net.Conn) {
		server, channels, requests, err := ssh.NewServerConn(conn, config)
		if err != nil {
			return
		}
		n.mu.Lock()
		n.logins++
		n.present++
		n.mu.Unlock()
		defer func() {
			n.mu.Lock()
			n.present--
			n.mu.Unlock()
		}()
		go ssh.DiscardRequests(requests)
		for channel := range channels {
			go forward(channel)
		}
		server.Wait()
	})
	return n
}

// forward accepts direct-tcpip channels and refuses all others.
func forward(asked ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if asked.ChannelType() != "direct-tcpip" || ssh.Unmarshal(asked.ExtraData(), &to) != nil {
		asked.Reject(ssh.Prohibited, "no")
		return
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		asked.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	defer conn.Close()
	channel, requests, err := asked.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	go func() {
		io.Copy(conn, channel)
		conn.Close()
	}()
	io.Copy(channel, conn)
	channel.Close()
}

// admits returns the configuration of a server that accepts the holder of the key.
func admits(key ssh.PublicKey) *ssh.ServerConfig {
	return &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, shown ssh.PublicKey) (*ssh.Permissions, error) {
		if equalKeys(shown, key) {
			return nil, nil
		}
		return nil, errors.New("not this one")
	}}
}

func (p *person) knows(n *node) {
	p.t.Helper()
	f, err := os.OpenFile(p.path("known_hosts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	fmt.Fprintln(f, knownhosts.Line([]string{n.address}, n.key.PublicKey()))
	f.Close()
}

// host returns a configuration block for a node.
func host(name string, port int, more ...string) string {
	return fmt.Sprintf("Host %s\n HostName 127.0.0.1\n Port %d\n %s\n", name, port, strings.Join(more, "\n "))
}

// failed dials and expects the given failure, at most a second later than necessary.
func (p *person) failed(c *Carrier, name string, timeout time.Duration, stage remote.Stage, cause remote.Cause, words string) (*remote.Error, *remote.Trace) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	begun := time.Now()
	client, trace, err := c.Dial(ctx, name)
	if client != nil {
		client.Close()
	}
	if took := time.Since(begun); took > timeout+remotetest.Slack {
		p.t.Errorf("%s: took %v, the deadline was %v", name, took, timeout)
	}
	var e *remote.Error
	if !errors.As(err, &e) {
		p.t.Fatalf("%s: %v, want %s/%s", name, err, stage, cause)
	}
	if e.Host != name || e.Stage != stage || e.Cause != cause || !strings.Contains(e.Err.Error(), words) {
		p.t.Errorf("got %v\nwant %s: %s: %s: …%s…", e, name, stage, cause, words)
	}
	return e, trace
}

func TestDial(t *testing.T) {
	p := newPerson(t)
	n := startNode(t, admits(p.key.PublicKey()))
	p.knows(n)
	p.write("config", host("w1", n.port, "User carol"))
	client, trace, err := p.client(Options{}).Dial(context.Background(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if trace.User != "carol" || trace.Port != n.port || trace.Address != "127.0.0.1" || trace.Banner != "SSH-2.0-Go" || trace.Connected <= 0 || len(trace.OpenSSH) > 0 {
		t.Errorf("trace: %+v", trace)
	}
	if client.(*connection).User() != "carol" {
		t.Errorf("logged in as %q", client.(*connection).User())
	}
}

func TestDialUserOfEntry(t *testing.T) {
	p := newPerson(t)
	n := startNode(t, admits(p.key.PublicKey()))
	p.knows(n)
	p.write("config", "Host w1\n HostName 127.0.0.1\n User carol\n Port 1\n")
	client, trace, err := p.client(Options{Port: n.port}).Dial(context.Background(), "dave@x@w1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if trace.User != "dave@x" || trace.Port != n.port {
		t.Errorf("trace: %+v", trace)
	}
}

func say(text string, then func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		io.WriteString(conn, text)
		then(conn)
	}
}

// stay waits until the other side closes the connection.
func stay(conn net.Conn) { io.Copy(io.Discard, conn) }

// hangUp reads everything before it closes the connection, because unread data would make the
// kernel reset it.
func hangUp(conn net.Conn) {
	bufio.NewReader(conn).ReadString('\n')
	conn.(*net.TCPConn).CloseWrite()
	stay(conn)
}

func TestDialStrangePeers(t *testing.T) {
	const short = 400 * time.Millisecond
	for _, test := range []struct {
		name  string
		serve func(net.Conn)
		stage remote.Stage
		cause remote.Cause
		words string
	}{
		{"silent", stay, remote.StageGreet, remote.Silent, "no greeting within "},
		{"closes", hangUp, remote.StageGreet, remote.ClosedBeforeBanner, "closed before the server's greeting"},
		{"max startups", say("Exceeded MaxStartups\r\n", hangUp), remote.StageGreet, remote.ClosedBeforeBanner, "Exceeded MaxStartups"},
		{"web server", say("HTTP/1.1 400 Bad Request\r\n\r\n\x1b[2J", hangUp), remote.StageGreet, remote.NotSSH, `HTTP/1.1 400 Bad Request\r\n`},
		{"mail server", say("220 mail ESMTP\r\n", stay), remote.StageGreet, remote.NotSSH, "220 mail"},
		{"half a line", say("SSH-2.0-Open", stay), remote.StageGreet, remote.NotSSH, "SSH-2.0-Open"},
		{"ssh 1", say("SSH-1.5-old\r\n", stay), remote.StageGreet, remote.NotSSH, "SSH-1.5-old"},
		{"frozen after greeting", say("SSH-2.0-OpenSSH_9.2\r\n", stay), remote.StageNegotiate, remote.Frozen, "no answer within"},
		{"greeting after lines", say("hello\r\nthere\r\nSSH-2.0-OpenSSH_9.2\r\n", stay), remote.StageNegotiate, remote.Frozen, "no answer within"},
		{"closes after greeting", say("SSH-2.0-OpenSSH_9.2\r\n", hangUp), remote.StageNegotiate, remote.ConnectionLost, "closed by the other side"},
		{"garbage after greeting", say("SSH-2.0-x\r\n\xff\xff\xff\xff\xff\xff", stay), remote.StageNegotiate, remote.Unexpected, "packet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPerson(t)
			_, port := listen(t, test.serve)
			p.write("config", host("w1", port))
			_, trace := p.failed(p.client(Options{}), "w1", short, test.stage, test.cause, test.words)
			if test.stage == remote.StageNegotiate && !strings.HasPrefix(trace.Banner, "SSH-2.0-") {
				t.Errorf("banner %q", trace.Banner)
			}
		})
	}
}

func TestDialNetwork(t *testing.T) {
	p := newPerson(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := closed.Addr().(*net.TCPAddr).Port
	closed.Close()
	p.write("config", host("refused", port))
	c := p.client(Options{})
	p.failed(c, "refused", time.Second, remote.StageConnect, remote.Refused, "connection refused")
	e, _ := p.failed(c, "no-such-host.invalid", 5*time.Second, remote.StageResolve, remote.NameUnknown, "")
	if e.Detail["resolver"] == "" || e.Detail["name"] != "no-such-host.invalid" {
		t.Errorf("detail %v", e.Detail)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = c.Dial(ctx, "refused")
	if !errors.As(err, &e) || e.Cause != remote.Interrupted {
		t.Errorf("interrupted: %v", err)
	}
}

func TestDialInterrupted(t *testing.T) {
	p := newPerson(t)
	_, port := listen(t, stay)
	p.write("config", host("w1", port))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	var e *remote.Error
	if _, _, err := p.client(Options{}).Dial(ctx, "w1"); !errors.As(err, &e) || e.Stage != remote.StageGreet || e.Cause != remote.Interrupted {
		t.Errorf("got %v", err)
	}
}

func TestDialConnectTimeout(t *testing.T) {
	p := newPerson(t)
	_, port := listen(t, stay)
	p.write("config", host("w1", port, "ConnectTimeout 1"))
	begun := time.Now()
	p.failed(p.client(Options{}), "w1", time.Minute, remote.StageGreet, remote.Silent, "no greeting within 1")
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestDialNoCommonAlgorithm(t *testing.T) {
	p := newPerson(t)
	server := admits(p.key.PublicKey())
	server.KeyExchanges = []string{ssh.InsecureKeyExchangeDH1SHA1}
	n := startNode(t, server)
	p.knows(n)
	p.write("config", host("w1", n.port))
	e, _ := p.failed(p.client(Options{}), "w1", time.Minute, remote.StageNegotiate, remote.NoCommonAlgorithm, "no common algorithm")
	if e.Detail["kind"] != "key exchange" || !strings.Contains(e.Detail["offered"], "group1-sha1") || !strings.Contains(e.Detail["ours"], "curve25519") {
		t.Errorf("detail %v", e.Detail)
	}
}
