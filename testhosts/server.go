// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// valve is a connection that can freeze. A frozen valve reads nothing and discards writes, but the
// kernel keeps the connection. Only Close ends the connection.
type valve struct {
	net.Conn
	freezing, closing sync.Once
	frozen, closed    chan struct{}
}

func newValve(conn net.Conn) *valve {
	return &valve{Conn: conn, frozen: make(chan struct{}), closed: make(chan struct{})}
}

func (v *valve) freeze() { v.freezing.Do(func() { close(v.frozen) }) }

func (v *valve) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	return v.pass(n, err)
}

func (v *valve) Write(p []byte) (int, error) {
	if _, err := v.pass(0, nil); err != nil {
		return 0, err
	}
	return v.Conn.Write(p)
}

func (v *valve) pass(n int, err error) (int, error) {
	select {
	case <-v.frozen:
		<-v.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (v *valve) Close() error {
	v.closing.Do(func() { close(v.closed) })
	return v.Conn.Close()
}

// serve handles one connection, from the banner to the last session.
func (h *host) serve(raw net.Conn) {
	conn := newValve(raw)
	if !h.fleet.hold(conn) {
		return
	}
	defer h.fleet.release(conn)
	h.connections.Add(1)
	ctx, cancel := context.WithCancel(h.fleet.ctx)
	defer cancel()
	if h.talk != nil {
		h.talk(ctx, conn)
		return
	}
	_, channels, requests, err := ssh.NewServerConn(conn, h.serverConfig())
	if err != nil {
		return // tests check the client's side of this failure
	}
	h.logins.Add(1)

	var work sync.WaitGroup
	defer work.Wait()
	defer cancel() // runs before the wait, because it ends the sessions
	work.Go(func() { h.answerGlobal(requests) })
	for channel := range channels {
		work.Go(func() { h.answerChannel(ctx, conn, channel) })
	}
}

func (h *host) serverConfig() *ssh.ServerConfig {
	config := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-OpenSSH_9.2p1 testhosts",
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if bytes.Equal(key.Marshal(), h.fleet.Key.PublicKey().Marshal()) {
				return nil, nil
			}
			return nil, errors.New("not the fleet's key")
		},
	}
	config.AddHostKey(h.key)
	return config
}

// answerGlobal answers the global requests of OpenSSH's and x/crypto's clients. Any other request
// fails the test.
func (h *host) answerGlobal(requests <-chan *ssh.Request) {
	for request := range requests {
		switch request.Type {
		case "keepalive@openssh.com", "no-more-sessions@openssh.com", "hostkeys-prove-00@openssh.com":
		default:
			h.fleet.t.Errorf("testhosts: %s: unexpected request %q", h.Name, request.Type)
		}
		if request.WantReply {
			request.Reply(false, nil)
		}
	}
}

func (h *host) answerChannel(ctx context.Context, conn *valve, channel ssh.NewChannel) {
	if h.open != nil && h.open(ctx, channel) {
		return
	}
	if channel.ChannelType() != "session" {
		h.fleet.t.Errorf("testhosts: %s: unexpected channel %q", h.Name, channel.ChannelType())
		channel.Reject(ssh.UnknownChannelType, "unknown channel type")
		return
	}
	h.sessions.Add(1)
	h.serveSession(ctx, conn, channel)
}

// execAnswer is what a host does with a request to run a command.
type execAnswer int

const (
	runs    execAnswer = iota
	refuses            // refuses the request
	ignores            // never answers
)

// session is a session channel that will run one command.
type session struct {
	*host
	ctx     context.Context // ends when the connection ends
	conn    *valve
	channel ssh.Channel
	stdout  io.Writer
	pty     bool
	ended   bool // the exit status was sent
}

// serveSession answers the requests of one session. As in OpenSSH, a session runs one command.
// Requests for a shell or a subsystem are not expected in these tests.
func (h *host) serveSession(ctx context.Context, conn *valve, open ssh.NewChannel) {
	channel, requests, err := open.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{host: h, ctx: ctx, conn: conn, channel: channel, stdout: channel}
	done := make(chan struct{})
	started := false
	for {
		select {
		case <-done:
			return
		case request, ok := <-requests:
			if !ok {
				cancel()
				if started {
					<-done
				}
				return
			}
			command, exec := s.answer(request)
			if exec && !started {
				started = true
				go func() {
					defer close(done)
					h.run(s, command)
				}()
			}
		}
	}
}

// answer replies to one request. If it is an exec request, it returns the command.
func (s *session) answer(request *ssh.Request) (command string, exec bool) {
	accept := false
	switch request.Type {
	case "exec":
		s.execs.Add(1)
		var payload struct{ Command string }
		if err := ssh.Unmarshal(request.Payload, &payload); err != nil {
			s.fleet.t.Errorf("testhosts: %s: malformed exec: %v", s.Name, err)
			break
		}
		if s.onExec == ignores {
			return "", false
		}
		command, exec, accept = payload.Command, s.onExec == runs, s.onExec == runs
	case "env": // sshd accepts only the variables in AcceptEnv, which is empty in these tests
	case "pty-req":
		s.pty, accept = true, true
	case "signal", "window-change", "keepalive@openssh.com":
	default:
		s.fleet.t.Errorf("testhosts: %s: unexpected session request %q", s.Name, request.Type)
	}
	if request.WantReply {
		request.Reply(accept, nil)
	}
	return command, exec
}

func (s *session) exit(status int) {
	s.end("exit-status", struct{ Status uint32 }{uint32(status)})
}

// exitBySignal reports to the client that a signal ended the command. name is the signal's name
// without SIG.
func (s *session) exitBySignal(name string) {
	s.end("exit-signal", struct {
		Signal  string
		Core    bool
		Message string
		Lang    string
	}{Signal: name})
}

func (s *session) end(request string, payload any) {
	if s.ended {
		return
	}
	s.ended = true
	s.channel.SendRequest(request, false, ssh.Marshal(payload))
}

// key keeps the private key in addition to its ssh.Signer, so that it can be written to a file.
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

func newKey(t testing.TB) key {
	t.Helper()
	k, err := generateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// files returns the contents of the two files in which OpenSSH keeps a key.
func (k key) files(comment string) (private, public []byte, err error) {
	block, err := ssh.MarshalPrivateKey(k.private, comment)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(k.PublicKey()), nil
}

// knownLine returns the known_hosts line for a host at these addresses (host:port).
func knownLine(addresses []string, public ssh.PublicKey) string {
	return knownhosts.Line(addresses, public) + "\n"
}
