// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"context"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Fault is one thing wrong with an in-process host. The faults are the
// functions of this package that have this signature, or return one that has.
// Those about output work with Exec and with a shell alike.
type Fault func(*host)

// Refuses has nothing listening: a TCP connection gets a reset.
func Refuses(h *host) { h.absent = true }

// Silent accepts the TCP connection and never says a word.
func Silent(h *host) {
	h.talk = func(ctx context.Context, _ net.Conn) { <-ctx.Done() }
}

// SessionRefused lets in and opens no session (MaxSessions 0).
func SessionRefused(h *host) {
	h.open = func(_ context.Context, channel ssh.NewChannel) bool {
		channel.Reject(ssh.Prohibited, "open failed")
		return true
	}
}

// SessionIgnored lets in and never answers the request for a session.
func SessionIgnored(h *host) {
	h.open = func(ctx context.Context, _ ssh.NewChannel) bool {
		<-ctx.Done()
		return true
	}
}

// ExecRefused opens sessions and runs no command in them.
func ExecRefused(h *host) { h.onExec = refuses }

// ExecIgnored opens sessions and never answers when a command is asked for.
func ExecIgnored(h *host) { h.onExec = ignores }

// ForcedCommand runs its own command, whatever was asked for (command= in
// authorized_keys, ForceCommand in sshd_config).
func ForcedCommand(output string) Fault {
	return func(h *host) {
		h.run = func(s *session, _ string) {
			io.WriteString(s.stdout, output)
			s.exit(0)
		}
	}
}

// NoLogin has the login shell /usr/sbin/nologin.
func NoLogin(h *host) {
	h.run = func(s *session, _ string) {
		io.WriteString(s.stdout, "This account is currently not available.\n")
		s.exit(1)
	}
}

// NeedsPTY runs commands on a terminal only, as bastions do.
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

// Noise prints before the command does.
func Noise(text string) Fault {
	return func(h *host) {
		h.run = func(s *session, command string) {
			io.WriteString(s.stdout, text)
			obey(s, command)
		}
	}
}

// SwallowsStdin has a ~/.bashrc that reads what was meant for the command.
func SwallowsStdin(h *host) {
	h.Shell = "/bin/bash"
	h.Files = map[string]string{".bashrc": "cat >/dev/null\n"}
}

// Garbage answers every command with bytes that are no text.
func Garbage(h *host) {
	h.run = func(s *session, _ string) {
		io.WriteString(s.stdout, "\x00\xff\xfe\x1b]0;owned\x07{\"half\": \n\x80\x81")
		s.exit(0)
	}
}

// Floods answers every command with lines that never end.
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

// ExitsWithoutStatus runs the command and never says how it ended.
func ExitsWithoutStatus(h *host) {
	h.run = func(s *session, command string) {
		s.ended = true
		obey(s, command)
	}
}

// Truncates hangs up once the command has printed this many bytes.
func Truncates(after int) Fault {
	return cutOutput(after, func(s *session) { s.conn.Close() })
}

// Freezes goes silent once the command has printed this many bytes: nothing is
// read, nothing written, and the connection stays (a SIGSTOP, a dead disk).
func Freezes(after int) Fault {
	return cutOutput(after, func(s *session) { s.conn.freeze() })
}

// Killed says a signal (named without SIG) ended the command once it has
// printed this many bytes.
func Killed(signal string, after int) Fault {
	return cutOutput(after, func(s *session) {
		s.exitBySignal(signal)
		s.channel.Close()
	})
}

// cutOutput lets the first bytes of the command's output pass and then acts.
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

// The faults of this file are about the machine behind the login. They bend
// PATH, so they hold for commands called by their bare name.

// WrongArch says uname -m is this.
func WrongArch(machine string) Fault {
	return shim("uname", "#!/bin/sh\n/bin/uname \"$@\" | sed \"s/$(/bin/uname -m)/"+machine+"/g\"\n")
}

// WrongOS says uname -s is this.
func WrongOS(system string) Fault {
	return shim("uname", "#!/bin/sh\n/bin/uname \"$@\" | sed \"s/Linux/"+system+"/g\"\n")
}

// NoExec lets no file become executable: running one fails with EACCES, as on
// a file system mounted noexec.
func NoExec(h *host) {
	shim("chmod", "#!/bin/sh\n/bin/chmod \"$@\" && shift && exec /bin/chmod a-x \"$@\"\n")(h)
}

// DiskFull fails like a full disk wherever the usual commands would write one:
// cat, gzip, dd, head and mktemp.
func DiskFull(h *host) {
	for _, name := range []string{"cat", "gzip", "gunzip", "dd", "head", "mktemp"} {
		shim(name, "#!/bin/sh\necho '"+name+": write error: No space left on device' >&2\nexit 1\n")(h)
	}
}

// Lacks does not have these commands installed.
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
