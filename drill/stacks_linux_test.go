// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// TestStacks runs a substitute for py-spy on this process. The substitute prints a dump like the
// real py-spy.
func TestStacks(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	long := []string{"Thread PID (active)"}
	for i := range mostStackLines - 1 {
		long = append(long, fmt.Sprintf("    f (a.py:%d)", i))
	}
	for _, tt := range []struct {
		name, script string // "" if there is no py-spy
		want         facts.Stack
	}{
		{name: "not installed", want: facts.Stack{Problem: "py-spy is not installed there"}},
		{name: "a dump", script: `
[ "$1 $2 $3" = "dump --nonblocking --pid" ] || exit 9
printf 'Process %s: python train.py --token hf_secret\nPython v3.11.2 (/usr/bin/python3.11)\n\nThread %s (idle): "MainThread"\n    wait (threading.py:320)\n    <module> (train.py:7)\n' $4 $4`,
			want: facts.Stack{Lines: []string{`Thread PID (idle): "MainThread"`, "    wait (threading.py:320)", "    <module> (train.py:7)"}}},
		{name: "refused", script: `echo "Error: Permission Denied" >&2; exit 1`, want: facts.Stack{Problem: "py-spy: Error: Permission Denied"}},
		{name: "a long one", script: `echo "Thread 1 (active)"; i=0; while [ $i != 100 ]; do echo "    f (a.py:$i)"; i=$((i+1)); done`,
			want: facts.Stack{Lines: append(long, "…")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.script != "" {
				if err := os.WriteFile(filepath.Join(dir, "py-spy"), []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			got := Stacks{PIDs: []int{os.Getpid()}, Deadline: time.Minute}.Run(t.Context())
			for i := range got {
				if got[i].PID != os.Getpid() {
					t.Errorf("of process %d, want %d", got[i].PID, os.Getpid())
				}
				got[i].PID = 0
				for k, line := range got[i].Lines {
					if rest, ok := strings.CutPrefix(line, "Thread "); ok {
						_, state, _ := strings.Cut(rest, " ")
						got[i].Lines[k] = "Thread PID " + state
					}
				}
			}
			if diff := cmp.Diff([]facts.Stack{tt.want}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestPySpyOfAnother checks that a py-spy next to a process's interpreter is run only if
// preflight's own user runs the process.
func TestPySpyOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: a process of another user needs root")
	}
	dir := filepath.Join(t.TempDir(), "bin")
	t.Setenv("PATH", t.TempDir())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	interpreter := filepath.Join(dir, "python3")
	for path, script := range map[string]string{interpreter: "read forever", filepath.Join(dir, "py-spy"): `echo "Thread 1 (active)"`} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		as   *syscall.Credential
		want string
	}{
		"ours": {nil, ""}, "another's": {&syscall.Credential{Uid: 65534, Gid: 65534}, "py-spy is not in PATH, and preflight does not run the py-spy next to another user's interpreter: run preflight as that user"},
	} {
		t.Run(name, func(t *testing.T) {
			process := exec.Cmd{Path: "/bin/sh", Args: []string{interpreter, "-c", "read forever"}, SysProcAttr: &syscall.SysProcAttr{Credential: c.as}}
			in, err := process.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				in.Close()
				_ = process.Wait()
			}()
			got := Stacks{PIDs: []int{process.Process.Pid}, Deadline: time.Minute}.Run(t.Context())
			if got[0].Problem != c.want || (got[0].Lines == nil) == (c.want == "") {
				t.Errorf("%+v, want %q", got[0], c.want)
			}
		})
	}
}
