// SPDX-License-Identifier: Apache-2.0

package testhosts_test

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"preflight/testhosts"
)

// outcome is what an SSH client received.
type outcome struct {
	output string
	err    error
}

func says(text string) func(outcome) bool {
	return func(o outcome) bool { return o.err != nil && strings.Contains(o.err.Error(), text) }
}

func prints(text string) func(outcome) bool {
	return func(o outcome) bool { return strings.Contains(o.output, text) }
}

func hangs(o outcome) bool {
	return errors.Is(o.err, os.ErrDeadlineExceeded) || o.err != nil && strings.Contains(o.err.Error(), "i/o timeout")
}

func missingStatus(o outcome) bool {
	var missing *ssh.ExitMissingError
	return errors.As(o.err, &missing)
}

func both(a, b func(outcome) bool) func(outcome) bool {
	return func(o outcome) bool { return a(o) && b(o) }
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const page = "hello" // the output of the healthy command
	tests := map[string]struct {
		fault testhosts.Fault
		sees  func(outcome) bool
	}{
		"refuses":              {testhosts.Refuses, func(o outcome) bool { return errors.Is(o.err, syscall.ECONNREFUSED) }},
		"silent":               {testhosts.Silent, hangs},
		"session refused":      {testhosts.SessionRefused, says("open failed")},
		"session ignored":      {testhosts.SessionIgnored, hangs},
		"exec refused":         {testhosts.ExecRefused, says("command echo hello failed")},
		"exec ignored":         {testhosts.ExecIgnored, hangs},
		"forced command":       {testhosts.ForcedCommand("menu: 1) 2)\n"), func(o outcome) bool { return o.output == "menu: 1) 2)\n" && o.err == nil }},
		"nologin":              {testhosts.NoLogin, both(prints("not available"), says("status 1"))},
		"needs pty":            {testhosts.NeedsPTY, both(prints("PTY allocation"), says("status 1"))},
		"noise":                {testhosts.Noise("welcome\n"), func(o outcome) bool { return o.output == "welcome\nhello\n" && o.err == nil }},
		"garbage":              {testhosts.Garbage, func(o outcome) bool { return strings.Contains(o.output, "\x00\xff") && o.err == nil }},
		"exits without status": {testhosts.ExitsWithoutStatus, both(prints(page), missingStatus)},
		"truncates":            {testhosts.Truncates(2), func(o outcome) bool { return o.output == "he" && missingStatus(o) }},
		"freezes":              {testhosts.Freezes(2), func(o outcome) bool { return o.output == "he" && hangs(o) }},
		"freezes at once":      {testhosts.Freezes(0), func(o outcome) bool { return o.output == "" && hangs(o) }},
		"killed":               {testhosts.Killed("KILL", 2), func(o outcome) bool { return o.output == "he" && says("signal KILL")(o) }},
	}
	// patience maps faults to the time to wait for an answer that never comes. Hosts that first
	// need a login get more time, because the machine may be busy.
	patience := map[string]time.Duration{
		"silent": time.Second, "session ignored": 2 * time.Second, "exec ignored": 2 * time.Second,
		"freezes": 4 * time.Second, "freezes at once": 4 * time.Second,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := testhosts.Start(t, testhosts.Host{Name: "w1", Fault: test.fault})
			if got := observe(t, f, "w1", patience[name]); !test.sees(got) {
				t.Errorf("client saw output %.100q, error %v", got.output, got.err)
			}
		})
	}
}

// observe logs in, runs a command, and returns the outcome. The outcome includes the output that
// arrived before the session died.
func observe(t *testing.T, f *testhosts.Fleet, name string, patience time.Duration) outcome {
	t.Helper()
	client, err := loginWithin(t, f, name, cmp.Or(patience, time.Minute))
	if err != nil {
		return outcome{err: err}
	}
	session, err := client.NewSession()
	if err != nil {
		return outcome{err: firstCause(client, err)}
	}
	session.Stdin = strings.NewReader("echo from stdin\n")
	out, err := session.CombinedOutput("echo hello")
	if errors.Is(err, io.EOF) && len(out) > 0 {
		err = nil // the error of writing stdin only means that the command ended before it had read everything
	}
	return outcome{string(out), firstCause(client, err)}
}

// firstCause replaces the error of a session with the error of its connection, if the connection
// ended because of the client's own deadline.
func firstCause(client *ssh.Client, err error) error {
	if err == nil {
		return nil
	}
	dead := make(chan error, 1)
	go func() { dead <- client.Wait() }()
	select {
	case cause := <-dead:
		var netErr net.Error
		if errors.As(cause, &netErr) && netErr.Timeout() {
			return cause
		}
	case <-time.After(50 * time.Millisecond):
		client.Close()
		<-dead
	}
	return err
}

func TestFloods(t *testing.T) {
	t.Parallel()
	f := testhosts.Start(t, testhosts.Host{Name: "w1", Fault: testhosts.Floods})
	client, err := login(t, f, "w1")
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := session.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Start("echo hello"); err != nil {
		t.Fatal(err)
	}
	// The server cannot have sent this much data before, so it must still be sending.
	if _, err := io.CopyN(io.Discard, out, 16<<20); err != nil {
		t.Error(err)
	}
}

func TestNeedsPTYWorksWithOne(t *testing.T) {
	t.Parallel()
	f := testhosts.Start(t, testhosts.Host{Name: "w1", Fault: testhosts.NeedsPTY})
	client, err := login(t, f, "w1")
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Fatal(err)
	}
	if out, err := session.Output("echo hello"); err != nil || string(out) != "hello\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestMachineFaults(t *testing.T) {
	tests := map[string]struct {
		fault         testhosts.Fault
		command, want string
	}{
		"wrong architecture": {testhosts.WrongArch("riscv64"), "uname -sm", "Linux riscv64\n"},
		"wrong system":       {testhosts.WrongOS("FreeBSD"), "uname -s", "FreeBSD\n"},
		"noexec":             {testhosts.NoExec, "printf '#!/bin/sh\n' > x; chmod 700 x; ./x 2>/dev/null; echo $?", "126\n"},
		"disk full":          {testhosts.DiskFull, "echo data | cat 2>&1 > file; ls -s file", "cat: write error: No space left on device\n0 file\n"},
		"no gzip":            {testhosts.Lacks("gzip", "gunzip"), "command -v gzip; ls /proc/self/status; command -v gunzip || echo neither", "/proc/self/status\nneither\n"},
		"swallows stdin":     {testhosts.SwallowsStdin, "cat; echo nothing left", "nothing left\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := testhosts.Start(t, testhosts.Host{Name: "w1", Fault: test.fault})
			got, err := run(t, f, "w1", test.command, "from stdin\n")
			if err != nil {
				t.Fatalf("%v; printed %q", err, got)
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
