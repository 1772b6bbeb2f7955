// SPDX-License-Identifier: Apache-2.0

package ssh

import (
	"encoding/binary"
	"errors"
	"io"

	"golang.org/x/crypto/ssh"

	"preflight/internal/text"
	"preflight/remote"
)

var errExecRefused = errors.New("the server runs no commands for this account")

// Start runs a command in the connection's only session. The library's Client and Session would do
// the same with one and a half times as many goroutines for each of ten thousand nodes.
func (c *connection) Start(command string, stderr io.Writer) (*remote.Process, *remote.Error) {
	channel, requests, err := c.OpenChannel("session", nil)
	if err == nil {
		err = begin(channel, command)
	}
	if err != nil {
		return nil, &remote.Error{Stage: remote.StageSession, Cause: refusal(err), Err: err}
	}
	ended, drained := make(chan remote.Exit, 1), make(chan struct{})
	go c.attend(requests, ended)
	go func() {
		defer close(drained)
		_, _ = io.Copy(stderr, channel.Stderr()) // the exit reports the error
	}()
	return &remote.Process{Stdin: stdin{channel}, Stdout: channel, Wait: func() remote.Exit {
		exit := <-ended
		<-drained
		return exit
	}}, nil
}

func begin(channel ssh.Channel, command string) error {
	accepted, err := channel.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	if err == nil && !accepted {
		return errExecRefused
	}
	return err
}

// stdin is a command's standard input. Closing it does not end the session.
type stdin struct{ ssh.Channel }

func (s stdin) Close() error { return s.CloseWrite() }

// refusal returns a cause that distinguishes a server that refuses the session from a server that
// is gone.
func refusal(err error) remote.Cause {
	if _, refused := errors.AsType[*ssh.OpenChannelError](err); refused || errors.Is(err, errExecRefused) {
		return remote.SessionRefused
	}
	return remote.ConnectionLost
}

// attend answers the server's requests, on the session and the connection, until the connection
// ends. It then sends how the session's command ended. Any answer satisfies OpenSSH's
// ClientAliveInterval.
func (c *connection) attend(session <-chan *ssh.Request, ended chan<- remote.Exit) {
	exit := remote.Exit{Status: -1, Missing: true}
	requests, channels := c.requests, c.channels
	for session != nil || requests != nil || channels != nil {
		select {
		case request, more := <-session:
			if !more {
				session = nil
				ended <- exit
				break
			}
			exit = exitOf(exit, request)
			answer(request)
		case request, more := <-requests:
			if !more {
				requests = nil
				break
			}
			answer(request)
		case channel, more := <-channels:
			if !more {
				channels = nil
				break
			}
			_ = channel.Reject(ssh.UnknownChannelType, "nothing is forwarded") // fails on a connection that is gone
		}
	}
}

func answer(request *ssh.Request) {
	if request.WantReply {
		_ = request.Reply(false, nil) // fails on a connection that is gone
	}
}

// exitOf returns how a command ended. It adds the information in a request to what was known.
func exitOf(known remote.Exit, request *ssh.Request) remote.Exit {
	switch request.Type {
	case "exit-status":
		if len(request.Payload) < 4 {
			return remote.Exit{Status: -1}
		}
		return remote.Exit{Status: int(binary.BigEndian.Uint32(request.Payload))}
	case "exit-signal":
		var by struct {
			Signal     string
			CoreDumped bool
			Error      string
			Lang       string
		}
		if err := ssh.Unmarshal(request.Payload, &by); err != nil {
			return remote.Exit{Status: -1}
		}
		return remote.Exit{Status: -1, Signal: text.Escape(by.Signal)}
	}
	return known
}

// Alive asks the server for a sign of life. It returns when the server answers or the connection is
// closed. Any answer counts. OpenSSH refuses the request, as it does for its own client.
func (c *connection) Alive() bool {
	_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
	return err == nil
}
