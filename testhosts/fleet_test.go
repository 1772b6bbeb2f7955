// SPDX-License-Identifier: Apache-2.0

package testhosts_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"preflight/testhosts"
)

// clientConfig returns the configuration of an SSH client of the fleet that verifies host keys.
func clientConfig(t *testing.T, f *testhosts.Fleet) *ssh.ClientConfig {
	t.Helper()
	check, err := knownhosts.New(filepath.Join(f.Home, ".ssh", "known_hosts"))
	if err != nil {
		t.Fatal(err)
	}
	return &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(f.Key)},
		HostKeyCallback: check,
	}
}

func login(t *testing.T, f *testhosts.Fleet, name string) (*ssh.Client, error) {
	t.Helper()
	return loginWithin(t, f, name, time.Minute)
}

// loginWithin logs in and limits the whole connection to the time patience, so that a silent host
// cannot block the test.
func loginWithin(t *testing.T, f *testhosts.Fleet, name string, patience time.Duration) (*ssh.Client, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", f.Address(name), patience)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(patience))
	transport, channels, requests, err := ssh.NewClientConn(conn, f.Address(name), clientConfig(t, f))
	if err != nil {
		conn.Close()
		return nil, err
	}
	client := ssh.NewClient(transport, channels, requests)
	t.Cleanup(func() { client.Close() })
	return client, nil
}

// run logs in, runs the command, and returns its standard output and standard error.
func run(t *testing.T, f *testhosts.Fleet, name, command, stdin string) (string, error) {
	t.Helper()
	client, err := login(t, f, name)
	if err != nil {
		return "", err
	}
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	session.Stdin = strings.NewReader(stdin)
	out, err := session.CombinedOutput(command)
	if errors.Is(err, io.EOF) { // the command ended before it had read all its input
		err = nil
	}
	return string(out), err
}

// who returns the name of the user who runs the tests.
func who(t *testing.T) string {
	t.Helper()
	name, err := exec.Command("id", "-un").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(name)
}

func TestHealthyHost(t *testing.T) {
	f := testhosts.Start(t, testhosts.Host{
		Name: "w1", Env: []string{"COLOUR=red"},
		Files: map[string]string{"bin/hello": "#!/bin/sh\necho hello from $HOME\n"},
	})
	home := f.HomeOf("w1")
	tests := []struct{ command, stdin, want string }{
		{"pwd; echo $HOME", "", home + "\n" + home + "\n"},
		{"bin/hello", "", "hello from " + home + "\n"},
		{"cat; echo $COLOUR", "over stdin\n", "over stdin\nred\n"},
		{"echo to stderr >&2", "", "to stderr\n"},
		// The first directory of PATH contains a replacement for the command id. The user ID that
		// it prints is unique to the fleet.
		{"echo ${PATH#*:}; [ $(id -u) -gt 2147483647 ] && id -un", "", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" + who(t)},
	}
	for _, test := range tests {
		got, err := run(t, f, "w1", test.command, test.stdin)
		if err != nil {
			t.Errorf("%s: %v", test.command, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.command, diff)
		}
	}
	_, err := run(t, f, "w1", "exit 7", "")
	var exit *ssh.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 7 {
		t.Errorf("exit 7: got %v", err)
	}
	if _, err = run(t, f, "w1", "kill -KILL $$", ""); !errors.As(err, &exit) || exit.Signal() != "KILL" {
		t.Errorf("kill -KILL: got %v", err)
	}
	if diff := cmp.Diff("w1 slots=8\n", f.Hostfile); diff != "" {
		t.Errorf("hostfile (-want +got):\n%s", diff)
	}
	want := testhosts.Counts{Connections: 7, Logins: 7, Sessions: 7, Execs: 7}
	if diff := cmp.Diff(want, f.Counts("w1")); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestInjectedExec(t *testing.T) {
	f := testhosts.Start(t, testhosts.Host{Name: "w1", Exec: func(command string, stdin io.Reader, stdout, stderr io.Writer) int {
		text, _ := io.ReadAll(stdin)
		io.WriteString(stdout, command+" got "+string(text))
		return 3
	}})
	got, err := run(t, f, "w1", "anything at all", "input")
	if got != "anything at all got input" {
		t.Errorf("got %q", got)
	}
	var exit *ssh.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 3 {
		t.Errorf("got %v, want exit status 3", err)
	}
}

// TestStrangerIsRefused checks that a healthy host refuses an unknown key. Otherwise the login
// tests would prove nothing.
func TestStrangerIsRefused(t *testing.T) {
	f := testhosts.Start(t, testhosts.Host{Name: "w1"})
	other := testhosts.Start(t, testhosts.Host{Name: "w1"})
	config := clientConfig(t, f)
	config.Auth = []ssh.AuthMethod{ssh.PublicKeys(other.Key)}
	client, err := ssh.Dial("tcp", f.Address("w1"), config)
	if err == nil {
		client.Close()
		t.Fatal("a stranger's key logged in")
	}
	if got := f.Counts("w1").Logins; got != 0 {
		t.Errorf("%d logins counted, want 0", got)
	}
}

func TestOpenSSHClient(t *testing.T) {
	f := testhosts.Start(t,
		testhosts.Host{Name: "w1"},
		testhosts.Host{Name: "chatty", Shell: "/bin/bash", Files: map[string]string{".bashrc": "echo welcome\n"}},
	)
	tests := []struct{ host, want string }{
		{"w1", "hello\n"},
		{"chatty", "welcome\nhello\n"},
	}
	for _, test := range tests {
		var out bytes.Buffer
		cmd := exec.Command("ssh", "-F", filepath.Join(f.Home, ".ssh", "config"), "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", test.host, "echo hello")
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Run()
		if got := out.String(); got != test.want {
			t.Errorf("%s: ssh printed %q, want %q", test.host, got, test.want)
		}
	}
}

// TestDaemonDoesNotHoldUpTheEnd checks that a daemon does not delay the end of the fleet. The
// daemon has left the command's process group and holds the command's output.
func TestDaemonDoesNotHoldUpTheEnd(t *testing.T) {
	var pid int
	t.Cleanup(func() { // runs after the fleet has ended
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("the daemon was not there to hold anything up: %v", err)
		}
	})
	f := testhosts.Start(t, testhosts.Host{Name: "w1"})
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
	if err := session.Start("setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000"); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
}

// TestLargeFleetLeavesNothing checks that a large fleet ends without leaving processes, goroutines
// or files behind.
func TestLargeFleetLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	var home, scratch string
	t.Run("fleet", func(t *testing.T) {
		f := testhosts.Start(t, make([]testhosts.Host, 2000)...)
		home = f.Home
		if strings.Count(f.Hostfile, "\n") != 2000 {
			t.Fatalf("hostfile has %d lines", strings.Count(f.Hostfile, "\n"))
		}
		last := strings.Fields(f.Hostfile[strings.LastIndex(strings.TrimSpace(f.Hostfile), "\n")+1:])[0]
		scratch = f.HomeOf(last)
		client, err := login(t, f, last)
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
		if err := session.Start("echo $$; exec sleep 1000"); err != nil {
			t.Fatal(err)
		}
		pid := make([]byte, 16)
		n, _ := out.Read(pid)
		proc := "/proc/" + strings.TrimSpace(string(pid[:n]))
		if _, err := os.Stat(proc); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // runs while the fleet is still up
			client.Close()
			waitUntil(t, "the command is gone", func() bool { _, err := os.Stat(proc); return err != nil })
		})
	})
	for _, path := range []string{home, scratch} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	waitUntil(t, "all goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
}

func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// TestSharedDirectories checks the files that commands create under their user's ID in shared
// directories. The files must belong only to this fleet and be removed after the test.
func TestSharedDirectories(t *testing.T) {
	var left []string
	t.Run("two fleets", func(t *testing.T) {
		for range 2 {
			f := testhosts.Start(t, testhosts.Host{Name: "w1"})
			path, err := run(t, f, "w1", "mkdir /var/tmp/test-$(id -u); echo -n /var/tmp/test-$(id -u)", "")
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || !info.IsDir() {
				t.Errorf("%s was not made: %v", path, err)
			}
			left = append(left, path)
		}
	})
	if len(left) != 2 || left[0] == left[1] {
		t.Errorf("two fleets write to %q", left)
	}
	for _, path := range left {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", path, err)
		}
	}
}
