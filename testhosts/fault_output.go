package testhosts

import (
	"io"
	"net"
)

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

// Exits ends every command with this status and this on stderr, unheard.
func Exits(status int, stderr string) Fault {
	return func(h *host) {
		h.run = func(s *session, _ string) {
			io.WriteString(s.channel.Stderr(), stderr)
			s.exit(status)
		}
	}
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
