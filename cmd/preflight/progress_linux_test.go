package main

import (
	"bytes"
	"fmt"
	"os"
	"preflight/fleet"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a new pseudo-terminal, which has no size until somebody sets one.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// shown is all that a terminal of some size is told of a second in which one of two
// nodes is reached.
func shown(t *testing.T, config Config, size *unix.Winsize) string {
	t.Helper()
	user, program := terminal(t)
	if size != nil {
		if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, size); err != nil {
			t.Fatal(err)
		}
	}
	stderr := os.Stderr
	os.Stderr = program
	defer func() { os.Stderr = stderr }()

	p := startProgress(config)
	p.hear(fleet.Event{Phase: fleet.Reaching, Step: fleet.Began, Nodes: 2})
	p.hear(fleet.Event{Phase: fleet.Reaching, Step: fleet.Began, Node: "w1"})
	p.hear(fleet.Event{Phase: fleet.Reaching, Step: fleet.Ended, Node: "w1"})
	if _, live := p.to.(*liveProgress); live {
		time.Sleep(calm + 2*tick) // until it is drawn
	}
	p.stop()
	fmt.Fprint(program, "end") // so that reading ends too
	var all []byte
	for part := make([]byte, 1<<16); !bytes.HasSuffix(all, []byte("end")); {
		n, err := user.Read(part)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part[:n]...)
	}
	return string(bytes.TrimSuffix(all, []byte("end")))
}

func TestProgressOnATerminal(t *testing.T) {
	const line, wiped = "log in        1 of 2 nodes\x1b[K\r\n\x1b[J", "\r\x1b[1A\x1b[J"
	for name, c := range map[string]struct {
		config Config
		size   *unix.Winsize
		term   string
		want   string
	}{
		"wide":       {Config{}, &unix.Winsize{Row: 24, Col: 100}, "xterm", line + wiped},
		"of no size": {Config{}, nil, "xterm", line + wiped},
		"narrow":     {Config{}, &unix.Winsize{Row: 24, Col: 20}, "xterm", "log in        1 of…\x1b[K\r\n\x1b[J" + wiped},
		"dumb":       {Config{}, nil, "dumb", "preflight:   0.0 s  log in: begins, 2 nodes\r\n"},
		"plain":      {Config{Progress: progressPlain}, nil, "xterm", "preflight:   0.0 s  log in: begins, 2 nodes\r\n"},
		"quiet":      {Config{Quiet: true}, nil, "xterm", ""},
		"none":       {Config{Progress: progressNone}, nil, "xterm", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", c.term)
			if got := shown(t, c.config, c.size); got != c.want {
				t.Errorf("\n got %q\nwant %q", got, c.want)
			}
		})
	}
}
