// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script writes an executable shell script and returns its path.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	writeProgram(t, path, "#!/bin/sh\n"+body)
	return path
}

// writeProgram writes a file that can be executed at once. A process that another test forks while
// the file is open would keep it open for writing, and the kernel refuses to execute such a file.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// alive reports whether a process runs and is not a zombie that waits for its parent.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestChildIsKilledWithItsChildren(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	path := script(t, "slow", `sleep 300 & echo $! > "$1.part"; mv "$1.part" "$1"; wait`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(ready); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, _, err := Child{Path: path, Args: []string{ready}}.Run(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	grandchild, err := os.ReadFile(ready)
	if err != nil {
		t.Fatal(err)
	}
	// The group has got SIGKILL, but the kernel needs a moment to end it.
	pid := strings.TrimSpace(string(grandchild))
	for end := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("grandchild %s is still there", pid)
		}
	}
}

func TestChildIsHeardWhileItSpeaks(t *testing.T) {
	path := script(t, "slow", `echo "$0"; sleep 300`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard, out := io.Pipe()
	go func() {
		first, err := bufio.NewReader(heard).ReadString('\n')
		if err != nil || first != path+"\n" {
			t.Errorf("the first line is %q, %v; want %q", first, err, path)
		}
		cancel()
	}()
	if _, err := (Child{Path: path}).Stream(ctx, out); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// late is an output that waits before its first read.
type late struct{ output }

func (l *late) Write(p []byte) (int, error) {
	if l.String() == "" {
		time.Sleep(3 * Grace)
	}
	return l.output.Write(p)
}

// TestChildIsHeardLate: the output of a child that ended long before we read it is complete. Run
// does not wait for another process that still holds the child's pipes.
func TestChildIsHeardLate(t *testing.T) {
	for left, want := range map[string]error{"": nil, "setsid sleep 300 & echo $! >&2; ": exec.ErrWaitDelay} {
		var out late
		said, err := Child{Path: script(t, "brief", left+`echo begun; sleep 0.1; head -c 60000 /dev/zero`)}.Stream(t.Context(), &out)
		if size := len(out.String()); size != len("begun\n")+60000 || !errors.Is(err, want) {
			t.Errorf("%q: %d bytes, %v; want %v", left, size, err, want)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(said)); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func TestChildIsCalledByItsName(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]Child{
		shell:   {Path: shell, Args: []string{"-c", "echo $0"}},
		"agent": {Path: shell, Name: "agent", Args: []string{"-c", "echo $0"}},
	} {
		if stdout, _, err := c.Run(t.Context()); err != nil || stdout != want+"\n" {
			t.Errorf("%+v is called %q, %v; want %q", c, stdout, err, want)
		}
	}
}

func TestChildOutputIsCapped(t *testing.T) {
	path := script(t, "chatty", `head -c 1000000 /dev/zero; echo end >&2`)
	stdout, stderr, err := Child{Path: path}.Run(t.Context())
	if err != nil || len(stdout) != MaxOutput || stderr != "end\n" {
		t.Errorf("%d bytes, %q, %v; want %d bytes, \"end\\n\", nil", len(stdout), stderr, err, MaxOutput)
	}
}

func TestComplaint(t *testing.T) {
	_, _, exit := Child{Path: script(t, "fails", "exit 3")}.Run(t.Context())
	tests := []struct {
		stderr string
		err    error
		want   string
	}{
		{"warning\nno module named torch\n\n", exit, "no module named torch"},
		{"", exit, "ended with exit status 3 and said nothing"},
		{"half a word", context.DeadlineExceeded, "no answer in time; it was killed"},
		{" \n", errors.New("exec format error"), "exec format error"},
	}
	for _, tt := range tests {
		if got := Complaint(tt.stderr, tt.err); got != tt.want {
			t.Errorf("Complaint(%q, %v) = %q, want %q", tt.stderr, tt.err, got, tt.want)
		}
	}
}

// TestStart: a program that runs in parallel leads its own group, and the group ends with it.
func TestStart(t *testing.T) {
	if _, err := Start(exec.Command("/there/is/no/such/program")); err == nil {
		t.Error("a program that is not there has started")
	}
	cmd := exec.Command(script(t, "long", `sleep 300 & wait`))
	ended, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := KillGroup(cmd); err != nil {
		t.Fatal(err)
	}
	<-ended
	if status := cmd.ProcessState.String(); status != "signal: killed" {
		t.Errorf("it ended with %s", status)
	}
}

func TestLines(t *testing.T) {
	var taken []string
	lines := &Lines{Most: 5, Take: func(line []byte) { taken = append(taken, string(line)) }}
	for _, written := range []string{"on", "e\ntwo\n\nfar too", " long\r\n", "last"} {
		if n, err := lines.Write([]byte(written)); n != len(written) || err != nil {
			t.Errorf("%q: %d, %v", written, n, err)
		}
	}
	if cap(lines.line) > 64 {
		t.Errorf("room for %d bytes is kept", cap(lines.line))
	}
	lines.Flush()
	if want := []string{"one", "two", "", "far t", "last"}; !slices.Equal(taken, want) {
		t.Errorf("%q, want %q", taken, want)
	}
}
