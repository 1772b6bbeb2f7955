package ssh

import (
	"errors"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"

	"preflight/remote"
)

var errExecRefused = errors.New("the server runs no commands for this account")

// Start runs a command in a session of its own.
func (c *connection) Start(command string, stderr io.Writer) (*remote.Process, *remote.Error) {
	session, process, err := c.start(command, stderr)
	if err != nil {
		return nil, &remote.Error{Stage: remote.StageSession, Cause: refusal(err), Err: err}
	}
	process.Wait = func() remote.Exit { return exitOf(session.Wait()) }
	return process, nil
}

func (c *connection) start(command string, stderr io.Writer) (*ssh.Session, *remote.Process, error) {
	session, err := c.NewSession()
	if err != nil {
		return nil, nil, err
	}
	stdin, err := session.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	stdout, err := session.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	session.Stderr = stderr
	err = session.Start(command)
	if err != nil && strings.HasPrefix(err.Error(), "ssh: command ") {
		err = errExecRefused // x/crypto's own text repeats the whole command
	}
	return session, &remote.Process{Stdin: stdin, Stdout: stdout}, err
}

// refusal tells a server that says no from one that is gone.
func refusal(err error) remote.Cause {
	if _, refused := errors.AsType[*ssh.OpenChannelError](err); refused || errors.Is(err, errExecRefused) {
		return remote.SessionRefused
	}
	return remote.ConnectionLost
}

// exitOf reads how a session ended.
func exitOf(err error) remote.Exit {
	status, ended := errors.AsType[*ssh.ExitError](err)
	_, missing := errors.AsType[*ssh.ExitMissingError](err)
	switch {
	case err == nil:
		return remote.Exit{}
	case ended && status.Signal() == "":
		return remote.Exit{Status: status.ExitStatus()}
	case ended:
		return remote.Exit{Status: -1, Signal: remote.Escape(status.Signal())}
	}
	return remote.Exit{Status: -1, Missing: missing}
}

// Alive asks the server whether it is still there; it returns when the server
// answers or the connection is closed. Any answer will do: OpenSSH refuses the
// request, as it does its own client's.
func (c *connection) Alive() bool {
	_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
	return err == nil
}
