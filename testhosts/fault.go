// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"context"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Fault changes an in-process host so that one thing is wrong with it. The faults are the functions
// of this package that have the type Fault or return a Fault. Faults of the output work with Exec
// and with a shell.
type Fault func(*host)

// Refuses makes the host not listen, so that a TCP connection gets a reset.
func Refuses(h *host) { h.absent = true }

// Silent makes the host accept the TCP connection and send nothing.
func Silent(h *host) {
	h.talk = func(ctx context.Context, _ net.Conn) { <-ctx.Done() }
}

// SessionRefused makes the host accept the login but open no session (MaxSessions 0).
func SessionRefused(h *host) {
	h.open = func(_ context.Context, channel ssh.NewChannel) bool {
		channel.Reject(ssh.Prohibited, "open failed")
		return true
	}
}

// SessionIgnored makes the host accept the login but never answer the request for a session.
func SessionIgnored(h *host) {
	h.open = func(ctx context.Context, _ ssh.NewChannel) bool {
		<-ctx.Done()
		return true
	}
}

// ExecRefused makes the host open sessions but refuse to run a command.
func ExecRefused(h *host) { h.onExec = refuses }

// ExecIgnored makes the host open sessions but never answer the request to run a command.
func ExecIgnored(h *host) { h.onExec = ignores }

// ForcedCommand makes the host print output instead of running the requested command, like a forced
// command (command= in authorized_keys, ForceCommand in sshd_config).
func ForcedCommand(output string) Fault {
	return func(h *host) {
		h.run = func(s *session, _ string) {
			io.WriteString(s.stdout, output)
			s.exit(0)
		}
	}
}

// NoLogin gives the host /usr/sbin/nologin as the login shell.
func NoLogin(h *host) {
	h.run = func(s *session, _ string) {
		io.WriteString(s.stdout, "This account is currently not available.\n")
		s.exit(1)
	}
}

// NeedsPTY makes the host run commands only on a terminal, as bastion hosts do.
func NeedsPTY(h *host) {
	h.run = func(s *session, command string) {
		if s.pty {
			obey(s, command)
			return
		}
		io.WriteString(s.channel.Stderr(), "PTY allocation is required on this host\n")
		s.exit(1)
	}
}

// Noise makes the host print text before the output of the command.
func Noise(text string) Fault {
	return func(h *host) {
		h.run = func(s *session, command string) {
			io.WriteString(s.stdout, text)
			obey(s, command)
		}
	}
}

// SwallowsStdin gives the host a ~/.bashrc that reads the input of the command.
func SwallowsStdin(h *host) {
	h.Shell = "/bin/bash"
	h.Files = map[string]string{".bashrc": "cat >/dev/null\n"}
}

// Garbage makes the host answer every command with bytes that are not text.
func Garbage(h *host) {
	h.run = func(s *session, _ string) {
		io.WriteString(s.stdout, "\x00\xff\xfe\x1b]0;owned\x07{\"half\": \n\x80\x81")
		s.exit(0)
	}
}

// Floods makes the host answer every command with an endless number of lines.
func Floods(h *host) {
	h.run = func(s *session, _ string) {
		line := strings.Repeat("flood ", 1000) + "\n"
		for {
			if _, err := io.WriteString(s.stdout, line); err != nil {
				return
			}
		}
	}
}

// ExitsWithoutStatus makes the host run the command but send no exit status.
func ExitsWithoutStatus(h *host) {
	h.run = func(s *session, command string) {
		s.ended = true
		obey(s, command)
	}
}

// Truncates makes the host close the connection after the command has printed the given number of
// bytes.
func Truncates(after int) Fault {
	return cutOutput(after, func(s *session) { s.conn.Close() })
}

// Freezes makes the host freeze after the command has printed the given number of bytes. The host
// then reads and writes nothing, but the connection stays open (as after SIGSTOP or with a dead
// disk).
func Freezes(after int) Fault {
	return cutOutput(after, func(s *session) { s.conn.freeze() })
}

// Killed makes the host report that a signal ended the command after the command had printed the
// given number of bytes. signal is the signal's name without SIG.
func Killed(signal string, after int) Fault {
	return cutOutput(after, func(s *session) {
		s.exitBySignal(signal)
		s.channel.Close()
	})
}

// cutOutput returns a fault that passes on the first bytes of the command's output and then calls
// act.
func cutOutput(after int, act func(*session)) Fault {
	return func(h *host) {
		h.run = func(s *session, command string) {
			s.stdout = &cutter{to: s.channel, left: after, act: func() { act(s) }}
			if after == 0 {
				act(s)
			}
			obey(s, command)
		}
	}
}

type cutter struct {
	to   io.Writer
	left int
	act  func()
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) < c.left {
		c.left -= len(p)
		return c.to.Write(p)
	}
	n, err := c.to.Write(p[:c.left])
	if err != nil {
		return n, err
	}
	c.act()
	c.left = 0
	return n, net.ErrClosed
}

// The faults below concern the machine and not the login. They change PATH, so they affect commands
// that are called without a path.

// WrongArch makes uname -m print this machine type.
func WrongArch(machine string) Fault {
	return shim("uname", "#!/bin/sh\n/bin/uname \"$@\" | sed \"s/$(/bin/uname -m)/"+machine+"/g\"\n")
}

// WrongOS makes uname -s print this system.
func WrongOS(system string) Fault {
	return shim("uname", "#!/bin/sh\n/bin/uname \"$@\" | sed \"s/Linux/"+system+"/g\"\n")
}

// NoExec prevents files from becoming executable. Running such a file fails with EACCES, as on a
// file system mounted noexec.
func NoExec(h *host) {
	shim("chmod", "#!/bin/sh\n/bin/chmod \"$@\" && shift && exec /bin/chmod a-x \"$@\"\n")(h)
}

// DiskFull makes the usual commands that write files fail as on a full disk: cat, gzip, dd, head
// and mktemp.
func DiskFull(h *host) {
	for _, name := range []string{"cat", "gzip", "gunzip", "dd", "head", "mktemp"} {
		shim(name, "#!/bin/sh\necho '"+name+": write error: No space left on device' >&2\nexit 1\n")(h)
	}
}

// Lacks removes the given commands from the host.
func Lacks(commands ...string) Fault {
	return func(h *host) { h.lacks = commands }
}

func shim(name, script string) Fault {
	return func(h *host) {
		if h.shims == nil {
			h.shims = map[string]string{}
		}
		h.shims[name] = script
	}
}
