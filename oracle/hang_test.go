// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"preflight/diagnose/hang"
)

// late makes the rank on w2 wait for a file before it imports anything.
const late = `
import os, socket, time
while socket.gethostname() == "w2" and not os.path.exists("go"):
    time.sleep(0.1)
`

// TestHangOfLaunchers checks jobs of every real launcher whose rank on w2 is late. preflight hang
// must name this rank and the line at which its Python waits. After that the rank continues, and
// the job must train undisturbed.
func TestHangOfLaunchers(t *testing.T) {
	t.Parallel()
	binary, installed := launchedBy(t)
	installed.patience = 8 * time.Minute // the limit may be long if no rank waits in vain
	for _, by := range launchers {
		t.Run(by.name, func(t *testing.T) {
			t.Parallel() // a rank is late only after a minute
			o := &rehearsal{planted: planted{files: map[string]string{"train.py": late + string(training)}}, launcher: by, runner: installed, binary: binary}
			o.raise(t)
			o.plant(t)
			type result struct {
				trained bool
				log     string
			}
			launched := make(chan result, 1)
			go func() {
				trained, _, log := o.launch(t)
				launched <- result{trained, log}
			}()
			o.awaitLate(t)
			if err := os.WriteFile(filepath.Join(o.dir, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if end := <-launched; !end.trained {
				t.Errorf("a job that was looked at does not train:\n%s", end.log)
			}
		})
	}
}

// awaitLate runs preflight hang until it names the late rank. A job that has just started has only
// launchers. Open MPI does not give its ranks a rendezvous address, and the answer must say this.
func (o *rehearsal) awaitLate(t *testing.T) {
	t.Helper()
	answer := regexp.MustCompile(`^1 of 2 ranks have joined at \S+; w2: rank 1: not connected to `)
	if o.launcher.name == "openmpi" {
		answer = regexp.MustCompile(`^a job of 2 ranks; no variable of the ranks holds the master address`)
	}
	var report hang.Report
	for end := time.Now().Add(o.patience / 2); time.Now().Before(end); time.Sleep(5 * time.Second) { // a look takes the processors from the other rows
		out, _ := o.at(t.Context(), o.hosts.Head, o.binary, "hang", "-H", "hostfile", "--stacks", "--format", "json").Output() // the exit code depends on the answer
		report = hang.Report{}
		if json.Unmarshal(out, &report) == nil && answer.MatchString(report.Answer) && slices.ContainsFunc(report.Named, isLate) {
			return
		}
	}
	text, _ := json.Marshal(report.Named)
	t.Errorf("answer %q, of %s", report.Answer, text)
}

// isLate reports whether n is the late rank, with a stack at the line at which the rank waits.
func isLate(n hang.Named) bool {
	return n.Node == "w2" && n.Member == "rank 1" && n.Stack != nil && strings.Contains(strings.Join(n.Stack.Lines, "\n"), "<module> (train.py:4)")
}

// odd is a training whose ranks meet and add up a tensor. After that, the rank on w2 does what the
// file "kind" says, and the other ranks add up another tensor.
const odd = `
import fcntl, os, queue, signal, socket, subprocess, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 10
    def __getitem__(self, i): time.sleep(1000)

def flock():
    fcntl.flock(open("lock", "w"), fcntl.LOCK_EX)

def loop():
    while True: pass

def moving():
    while True: dist.all_reduce(tensor)

def save():
    while True:
        with open("checkpoint", "wb") as file: file.write(bytes(8 << 20))

def loader():
    for _ in DataLoader(Slow(), num_workers=2): pass

def store():
    dist.distributed_c10d._get_default_store().get("nokey")

dist.init_process_group("gloo")
tensor = torch.ones(1000)
dist.all_reduce(tensor)
kind = open("kind").read()
held = open("lock", "w")
if socket.gethostname() == "w1": fcntl.flock(held, fcntl.LOCK_EX)
dist.barrier()
open("met", "a").close()
if kind == "moving": moving()
if socket.gethostname() == "w2":
    {
        "sleep": lambda: time.sleep(1000), "flock": flock, "input": input, "loop": loop, "save": save,
        "loader": loader, "child": lambda: subprocess.run(["sleep", "1000"]), "store": store,
        "queue": lambda: queue.Queue().get(), "collective": dist.monitored_barrier,
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP), "debugger": breakpoint,
    }[kind]()
else:
    time.sleep(3)
dist.all_reduce(tensor)
time.sleep(1000)
`

// TestHangAfterMeeting checks jobs whose ranks have met and which do not move, because one of them does
// something else than the others. preflight hang must never pass such a job, and must name this rank.
// It must pass a job that moves.
func TestHangAfterMeeting(t *testing.T) {
	t.Parallel()
	binary, installed := launchedBy(t)
	installed.patience = 2 * time.Minute
	static := launchers[slices.IndexFunc(launchers, func(l launcher) bool { return l.name == "static" })]
	for _, tt := range []struct {
		kind string
		code int
		want string // part of the answer without py-spy
		// codeWith and wantWith are for an answer with py-spy; "" means that the answer is the same.
		codeWith int
		wantWith string
	}{
		{"moving", 0, "the job moves: its ranks exchanged ", 0, ""},
		{"sleep", 1, "w2: rank 1 sleeps in its own code, and rank 0 waits for it", 1, "rank 1 is at train.py:40 and sleeps in its own code, and rank 0 waits for it"},
		{"flock", 1, "w2: rank 1 waits for a file lock, and rank 0 waits for it", 1, "rank 1 is at train.py:11 and waits for a file lock, and rank 0 waits for it"},
		{"input", 1, "w2: rank 1 waits for input, as in breakpoint() or input()", 1, "rank 1 is at train.py:"},
		{"debugger", 1, "w2: rank 1 waits for input, as in breakpoint() or input()", 1, "rank 1 is at train.py:"},
		{"loop", 2, "w2: rank 1 computes", 2, "rank 1 is at train.py:14 and computes, and rank 0 waits for it"},
		{"save", 2, "w2: rank 1 ", 2, "rank 1 is at train.py:"},
		{"loader", 1, "w2: rank 1 waits for its DataLoader or other workers", 1, "rank 1 is at train.py:"},
		{"child", 1, "w2: rank 1 waits for a program that it started", 1, "rank 1 is at train.py:"},
		{"store", 1, "w2: rank 1 sleeps, or waits for the rendezvous store", 1, "rank 1 "},
		{"stop", 1, "w2: rank 1: stopped by a signal", 1, ""},
		{"queue", 2, "w2: rank 1 sent its last data before all others, and rank 0 waits for it", 1, "rank 1 is at train.py:"},
		{"collective", 2, "", 1, "not all ranks are in the same collective"},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			o := &rehearsal{planted: planted{files: map[string]string{"train.py": odd, "kind": tt.kind}, steps: sh("nodes", `mount --bind /dev/null "$2/py-spy"`)}, launcher: static, runner: installed, binary: binary}
			o.raise(t)
			o.plant(t)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			t.Cleanup(all.Wait)
			t.Cleanup(cancel)
			for i, n := range o.hosts.Nodes {
				cmd := o.at(ctx, n, o.typed(i)...)
				in, out, err := os.Pipe() // a standard input that never ends
				if err != nil {
					t.Fatal(err)
				}
				cmd.Stdin, cmd.WaitDelay = in, 2*time.Second
				cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
				all.Go(func() {
					output, _ := cmd.CombinedOutput()
					t.Logf("%s:\n%s", n.Name, output)
					in.Close()
					out.Close()
				})
			}
			for end := time.Now().Add(o.patience); ; time.Sleep(time.Second) {
				if _, err := os.Stat(filepath.Join(o.dir, "met")); err == nil {
					break
				} else if time.Now().After(end) {
					t.Fatal("the ranks do not meet")
				}
			}
			time.Sleep(5 * time.Second)
			check := func(code int, want string) {
				t.Helper()
				text, err := o.at(t.Context(), o.hosts.Head, o.binary, "hang", "-H", "hostfile").CombinedOutput()
				got := 0
				if ended := new(exec.ExitError); errors.As(err, &ended) {
					got = ended.ExitCode()
				}
				if whole := strings.Join(strings.Fields(string(text)), " "); got != code || !strings.Contains(whole, want) {
					t.Errorf("exit code %d, want %d; want %q", got, code, want)
				}
				t.Logf("exit code %d\n%s", got, text)
			}
			check(tt.code, tt.want)
			for _, n := range o.hosts.Nodes {
				if out, err := n.Run(t.Context(), "umount", filepath.Join(o.bin, "py-spy")); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			check(tt.codeWith, cmp.Or(tt.wantWith, tt.want))
		})
	}
}
