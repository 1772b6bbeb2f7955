// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"preflight/testhosts/remotetest"
)

// testConnection is a login over ssh without a path watch.
type testConnection struct{ *ssh.Client }

func (c *testConnection) Start(command string, stderr io.Writer) (*Process, *Error) {
	session, err := c.NewSession()
	if err != nil {
		return nil, &Error{Stage: StageSession, Cause: ConnectionLost, Err: err}
	}
	stdin, _ := session.StdinPipe() // fails only if the session already has one
	stdout, _ := session.StdoutPipe()
	session.Stderr = stderr
	if err := session.Start(command); err != nil && strings.HasPrefix(err.Error(), "ssh: command ") {
		return nil, &Error{Stage: StageSession, Cause: SessionRefused, Err: errors.New("the server runs no commands")}
	} else if err != nil {
		return nil, &Error{Stage: StageSession, Cause: ConnectionLost, Err: err}
	}
	return &Process{Stdin: stdin, Stdout: stdout, Wait: func() Exit {
		err := session.Wait()
		if status := (*ssh.ExitError)(nil); errors.As(err, &status) {
			if status.Signal() != "" {
				return Exit{Status: -1, Signal: status.Signal()}
			}
			return Exit{Status: status.ExitStatus()}
		}
		if err != nil {
			return Exit{Status: -1, Missing: true}
		}
		return Exit{}
	}}, nil
}

func (c *testConnection) Alive() bool {
	_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
	return err == nil
}

func (c *testConnection) Broken() *Error                  { return nil }
func (c *testConnection) LookOut(context.Context) Lookout { return blind{} }

// blind is a lookout that sees nothing.
type blind struct{}

func (blind) Tell(*Error) {}
func (blind) Dismiss()    {}

// nowhere is the carrier of clients that get their connections from the test.
type nowhere struct{}

func (nowhere) Dial(context.Context, string) (Connection, *Trace, error) { panic("nobody dials") }
func (nowhere) Files([]string) int                                       { return 0 }
func (nowhere) Close() error                                             { return nil }

// connect starts the node's server and logs in to it.
func connect(t *testing.T, n *remotetest.Node) *testConnection {
	t.Helper()
	if n.Home == "" {
		n.Home = t.TempDir()
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	n.Waited.Do(func() { t.Cleanup(n.Processes.Wait) }) // waits after all connections are closed
	n.Processes.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		n.Serve(conn, config)
	})
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sshConn, channels, requests, err := ssh.NewClientConn(conn, "w1", &ssh.ClientConfig{
		HostKeyCallback: ssh.FixedHostKey(signer.PublicKey()),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &testConnection{ssh.NewClient(sshConn, channels, requests)}
	t.Cleanup(func() { client.Close() })
	return client
}

// testBinary is compressed once for all clients, before any time limit starts. Many tests run at
// the same time, and separate compressions would take all of the CPU.
var testBinary = sync.OnceValue(func() error {
	found, err := Own("linux", runtime.GOARCH)
	if err == nil {
		_, err = found.Gzip()
	}
	return err
})

// testClient returns a client that delivers the test binary.
func testClient(t *testing.T) *Client {
	t.Helper()
	if err := testBinary(); err != nil {
		t.Fatal(err)
	}
	c := New(nowhere{}, Options{})
	t.Cleanup(func() { c.Close() })
	return c
}

// start starts an agent on n. limit is the time limit.
func start(t *testing.T, n *remotetest.Node, limit time.Duration) (*Agent, *Trace, *Error) {
	t.Helper()
	client, conn, trace := testClient(t), connect(t, n), &Trace{}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	agent, err := client.bootstrap(ctx, conn, "w1", trace)
	if agent != nil {
		t.Cleanup(func() { agent.Close() })
	}
	return agent, trace, err
}
