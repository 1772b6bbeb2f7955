// SPDX-License-Identifier: Apache-2.0

// Package ssh reaches nodes over SSH as the system's own ssh would. It reads the same
// configuration, verifies the host key as OpenSSH does, offers the same keys, and goes through the
// same jump hosts. Differences from ssh are recorded in the [remote.Trace], because the launch uses
// ssh.
//
// The package asks for no password or passphrase, accepts no host key that OpenSSH would reject,
// and writes to no file of the user. It makes a second connection only to a node that hangs, to
// find out why (path.go), and uses it for nothing else.
package ssh

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"preflight/internal/hostsys"
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

// Options configures a Carrier. Every zero value is the normal setting, so that only tests and
// flags set fields.
type Options struct {
	Home         string        // the home directory whose .ssh is used; "" = the user's, from the password database
	SystemConfig string        // "" = /etc/ssh/ssh_config; the system's known hosts are in the same directory
	AgentSocket  string        // "" = $SSH_AUTH_SOCK
	Port         int           // overrides the configuration like ssh -p; 0 = as configured
	User         string        // overrides the configuration like ssh -l; "" = as configured, else the local user
	Timeout      time.Duration // limit per node, from name lookup to an agent that answers; 0 = remote.DefaultTimeout
}

// Carrier reaches nodes over ssh. It reads the user's ssh configuration once. It keeps the values
// that nodes share: parsed known_hosts files, keys, agents and connections to jump hosts. It is
// safe for concurrent use and must be closed.
type Carrier struct {
	options  Options
	local    account
	config   configFiles
	hostKeys knownHosts
	keys     cache[string, *identity]
	agents   cache[string, *sshAgent]
	jumps    jumps
	names    *hostsys.Names
}

// account is the local user. Several of ssh's tokens expand to its fields.
type account struct {
	name, home, uid, hostname string
}

// New reads the ssh configuration of the user and of the system. It fails where ssh itself would
// refuse to start: on a line that it cannot parse, or if other users may write the user's file.
func New(o Options) (*Carrier, error) {
	me, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("user ID %d has no entry in /etc/passwd, and ssh refuses to start without one (No user exists for uid %d): add the entry, or mount the host's /etc/passwd into the container (%w)", os.Getuid(), os.Getuid(), err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("the name of this machine: %w", err)
	}
	o.Home = cmp.Or(o.Home, me.HomeDir)
	o.SystemConfig = cmp.Or(o.SystemConfig, "/etc/ssh/ssh_config")
	o.AgentSocket = cmp.Or(o.AgentSocket, os.Getenv("SSH_AUTH_SOCK"))
	o.Timeout = cmp.Or(o.Timeout, remote.DefaultTimeout)
	c := &Carrier{
		options: o,
		names:   hostsys.NewNames(""),
		local:   account{name: me.Username, home: o.Home, uid: me.Uid, hostname: hostname},
	}
	c.config, err = readConfig(filepath.Join(o.Home, ".ssh", "config"), o.SystemConfig, o.Home)
	if err != nil {
		return nil, err
	}
	c.jumps.life, c.jumps.end = context.WithCancel(context.Background())
	return c, nil
}

// Close closes the connections that nodes share. Callers close the connections to nodes.
func (c *Carrier) Close() error {
	c.jumps.close()
	c.agents.each((*sshAgent).close)
	return nil
}
