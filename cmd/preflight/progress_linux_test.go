package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"preflight"
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

// TestProgressOnATerminalOfNoSize: such a terminal shows the line as others do.
func TestProgressOnATerminalOfNoSize(t *testing.T) {
	user, program := terminal(t)
	stderr := os.Stderr
	os.Stderr = program
	defer func() { os.Stderr = stderr }()

	p := startProgress(Config{}, 2)
	p.step("w1", preflight.Started)
	p.step("w1", preflight.Reached)
	time.Sleep(400 * time.Millisecond) // a few refreshes
	p.stop()
	fmt.Fprint(program, "end") // so that reading ends too
	got := make([]byte, 1<<16)
	n, err := user.Read(got)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(got[:n], []byte("reached 1 of 2")) {
		t.Errorf("the terminal shows %q", got[:n])
	}
}
