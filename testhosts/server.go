package testhosts

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"
)

// valve is a connection that can freeze: what arrives is no longer read and
// what is written goes nowhere, but the kernel still holds the line. Only
// closing ends it.
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

// serve holds one conversation, from the banner to the last session.
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
		return // the client's side of the failure is what a test looks at
	}
	h.logins.Add(1)

	var work sync.WaitGroup
	defer work.Wait()
	defer cancel() // before the wait: it is what ends the sessions
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
	for _, key := range h.keys {
		config.AddHostKey(key)
	}
	if h.config != nil {
		h.config(config)
	}
	return config
}

// answerGlobal knows what OpenSSH's and x/crypto's clients ask of a server
// beside channels. Anything else is news a test should hear.
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
	switch channel.ChannelType() {
	case "session":
		h.sessions.Add(1)
		h.serveSession(ctx, conn, channel)
	case "direct-tcpip":
		h.forward(ctx, channel)
	default:
		h.fleet.t.Errorf("testhosts: %s: unexpected channel %q", h.Name, channel.ChannelType())
		channel.Reject(ssh.UnknownChannelType, "unknown channel type")
	}
}
