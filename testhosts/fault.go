// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"context"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Fault changes an in-process host so that one thing is wrong with it. The functions of this
// package with this signature, or with a Fault as result, are the faults. Faults of output work
// with Exec and with a shell.
type Fault func(*host)

// Refuses does not listen: a TCP connection gets a reset.
func Refuses(h *host) { h.absent = true }

// Silent accepts the TCP connection and sends nothing.
func Silent(h *host) {
	h.talk = func(ctx context.Context, _ net.Conn) { <-ctx.Done() }
}

// SessionRefused accepts the login but opens no session (MaxSessions 0).
func SessionRefused(h *host) {
	h.open = func(_ context.Context, channel ssh.NewChannel) bool {
		channel.Reject(ssh.Prohibited, "open failed")
		return true
	}
}

// SessionIgnored accepts the login but never answers the request for a session.
func SessionIgnored(h *host) {
	h.open = func(ctx context.Context, _ ssh.NewChannel) bool {
		<-ctx.Done()
		return true
	}
}

// ExecRefused opens sessions but refuses to run a command.
func ExecRefused(h *host) { h.onExec = refuses }

// ExecIgnored opens sessions but never answers the request to run a command.
func ExecIgnored(h *host) { h.onExec = ignores }

// ForcedCommand runs its own command instead of the requested one (command= in authorized_keys,
// ForceCommand in sshd_config).
func ForcedCommand(output string) Fault {
	return func(h *host) {
		h.run = func(s *session, _ string) {
			io.WriteString(s.stdout, output)
			s.exit(0)
		}
	}
}

// NoLogin has /usr/sbin/nologin as login shell.
func NoLogin(h *host) {
	h.run = func(s *session, _ string) {
		io.WriteString(s.stdout, "This account is currently not available.\n")
		s.exit(1)
	}
}

// NeedsPTY runs commands only on a terminal, as bastion hosts do.
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

// Noise prints text before the output of the command.
func Noise(text string) Fault {
	return func(h *host) {
		h.run = func(s *session, command string) {
			io.WriteString(s.stdout, text)
			obey(s, command)
		}
	}
}

// SwallowsStdin has a ~/.bashrc that reads the input of the command.
func SwallowsStdin(h *host) {
	h.Shell = "/bin/bash"
	h.Files = map[string]string{".bashrc": "cat >/dev/null\n"}
}

// Garbage answers every command with bytes that are not text.
func Garbage(h *host) {
	h.run = func(s *session, _ string) {
		io.WriteString(s.stdout, "\x00\xff\xfe\x1b]0;owned\x07{\"half\": \n\x80\x81")
		s.exit(0)
	}
}

// Floods answers every command with lines without end.
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

// ExitsWithoutStatus runs the command but sends no exit status.
func ExitsWithoutStatus(h *host) {
	h.run = func(s *session, command string) {
		s.ended = true
		obey(s, command)
	}
}

// Truncates closes the connection after the command has printed this many bytes.
func Truncates(after int) Fault {
	return cutOutput(after, func(s *session) { s.conn.Close() })
}

// Freezes stops after the command has printed this many bytes: it reads and writes nothing, but the
// connection stays open (as after SIGSTOP or with a dead disk).
func Freezes(after int) Fault {
	return cutOutput(after, func(s *session) { s.conn.freeze() })
}

// Killed reports that a signal (its name without SIG) ended the command after it had printed this
// many bytes.
func Killed(signal string, after int) Fault {
	return cutOutput(after, func(s *session) {
		s.exitBySignal(signal)
		s.channel.Close()
	})
}

// cutOutput passes on the first bytes of the command's output and then calls act.
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

// NoExec prevents files from becoming executable: running one fails with EACCES, as on a file
// system mounted noexec.
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

// Lacks is a host without these commands.
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
