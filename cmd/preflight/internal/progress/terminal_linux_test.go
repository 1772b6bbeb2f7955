// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"preflight/fleet"
)

// terminal returns the two ends of a new pseudo-terminal, which has no size yet.
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

// shown returns everything that is written to a terminal of the given size during one second. In
// that second one of two nodes is reached.
func shown(t *testing.T, mode string, quiet bool, size *unix.Winsize) string {
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

	p := Start(mode, quiet)
	p.Take(fleet.Event{Phase: fleet.Reaching, Step: fleet.Began, Nodes: 2})
	p.Take(fleet.Event{Phase: fleet.Reaching, Step: fleet.Began, Node: "w1"})
	p.Take(fleet.Event{Phase: fleet.Reaching, Step: fleet.Began, Node: "w2"})
	p.Take(fleet.Event{Phase: fleet.Reaching, Step: fleet.Ended, Node: "w1"})
	var all []byte
	readTo := func(end string) {
		for part := make([]byte, 1<<16); !bytes.HasSuffix(all, []byte(end)); {
			n, err := user.Read(part)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, part[:n]...)
		}
	}
	if p.width != nil {
		readTo("\x1b[K") // waits until the line is drawn
	}
	p.Stop()
	fmt.Fprint(program, "end") // makes the reader stop
	readTo("end")
	return passed.ReplaceAllString(string(bytes.TrimSuffix(all, []byte("end"))), "0.0 s")
}

// passed matches the time that has passed, which differs from run to run.
var passed = regexp.MustCompile(`\d+\.\d s`)

func TestProgressOnATerminal(t *testing.T) {
	const line, wiped = "\rlog in: 1 of 2 nodes\x1b[K", "\r\x1b[K"
	const plain = "preflight:   0.0 s  log in: begins, 2 nodes\r\n"
	for name, c := range map[string]struct {
		mode  string
		quiet bool
		size  *unix.Winsize
		term  string
		want  string
	}{
		"wide":       {Auto, false, &unix.Winsize{Row: 24, Col: 100}, "xterm", line + wiped},
		"of no size": {Auto, false, nil, "xterm", line + wiped},
		"narrow":     {Auto, false, &unix.Winsize{Row: 24, Col: 20}, "xterm", "\rlog in: 1 of 2 nod…\x1b[K" + wiped},
		"dumb":       {Auto, false, nil, "dumb", plain},
		"plain":      {Plain, false, nil, "xterm", plain},
		"quiet":      {Plain, true, nil, "xterm", ""},
		"none":       {None, false, nil, "xterm", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", c.term)
			if got := shown(t, c.mode, c.quiet, c.size); got != c.want {
				t.Errorf("\n got %q\nwant %q", got, c.want)
			}
		})
	}
}
