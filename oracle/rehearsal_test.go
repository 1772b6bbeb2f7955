// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unforeseen lists faults that no check looks for. Each makes the launch die, and the rehearsal
// must name the node and, in the finding or in the output that it quotes, the cause.
var unforeseen = []struct {
	planted
	node, cause string
}{
	{planted{name: "hash-seed", steps: sh("w2", `echo export PYTHONHASHSEED=abc >>/root/.bashrc`), dies: "c10d pdsh"}, "w2", "PYTHONHASHSEED"},
	{planted{name: "debug-level", steps: sh("w2", `echo export TORCH_DISTRIBUTED_DEBUG=LOUD >>/root/.bashrc`), dies: "c10d pdsh"}, "w2", "TORCH_DISTRIBUTED_DEBUG"},
	{planted{name: "transport", steps: sh("w2", `echo export GLOO_DEVICE_TRANSPORT=TCP_TLS >>/root/.bashrc`), dies: "pdsh static"}, "w2", ""},
	{planted{name: "sleeps-at-start", steps: customized(`
if "LOCAL_RANK" in os.environ: time.sleep(1000)`), dies: "c10d"}, "w2", ""},
	{planted{name: "exits-at-start", steps: customized(`
if any(word.endswith("train.py") for word in sys.orig_argv): os._exit(7)`), dies: "c10d"}, "w2", ""},
	{planted{name: "wrong-sums", steps: customized(`
def patch():
    while not hasattr(sys.modules.get("torch.distributed"), "all_reduce"): time.sleep(0.01)
    real = sys.modules["torch.distributed"].all_reduce
    def all_reduce(tensor, *args, **more):
        tensor[0] += 1
        return real(tensor, *args, **more)
    sys.modules["torch.distributed"].all_reduce = all_reduce
if any(word.endswith("train.py") for word in sys.orig_argv): threading.Thread(target=patch, daemon=True).start()`), dies: "c10d"}, "", "elements are wrong"},
}

// customized returns the steps that make every Python on w2 run a text when it starts.
func customized(text string) []step {
	return sh("w2", `mkdir /root/custom; echo export PYTHONPATH=/root/custom >>/root/.bashrc
cat >/root/custom/sitecustomize.py <<'END'
import os, sys, threading, time
`+strings.TrimPrefix(text, "\n")+`
END`)
}

// TestRehearsal rehearses launches with faults that no check looks for.
func TestRehearsal(t *testing.T) {
	binary, installed := launchedBy(t)
	*rehearsed = true
	for _, u := range unforeseen {
		for by := range strings.FieldsSeq(u.dies) {
			i := slices.IndexFunc(launchers, func(l launcher) bool { return l.name == by })
			o := rehearsal{planted: u.planted, launcher: launchers[i], runner: installed, binary: binary}
			t.Run(by+"/"+u.name, func(t *testing.T) {
				t.Parallel()
				o.raise(t)
				o.plant(t)
				verdict := o.judge(t)
				t.Logf("%d %+v", verdict.ExitCode, verdict.Findings)
				for _, f := range verdict.Findings {
					if f.Check == "rehearsal" && f.Verdict == "fail" {
						if u.node != "" && !slices.Equal(f.Nodes, []string{u.node}) {
							t.Errorf("the rehearsal blames %q, want %s: %+v", f.Nodes, u.node, f)
						}
						if !strings.Contains(f.Summary+f.Got, u.cause) {
							t.Errorf("the rehearsal does not say %q: %+v", u.cause, f)
						}
						o.leavesNothing(t)
						return
					}
				}
				t.Errorf("the rehearsal does not fail: %d %+v", verdict.ExitCode, verdict.Findings)
			})
		}
	}
}

// TestRehearsalIsCutOff interrupts and kills preflight at several moments of a rehearsal. Nothing
// may be left on any machine after 15 s.
func TestRehearsalIsCutOff(t *testing.T) {
	binary, installed := launchedBy(t)
	for _, by := range []string{"pdsh", "c10d"} {
		i := slices.IndexFunc(launchers, func(l launcher) bool { return l.name == by })
		o := rehearsal{planted: planted{name: "none"}, launcher: launchers[i], runner: installed, binary: binary}
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			o.raise(t)
			o.plant(t)
			for n, after := range []time.Duration{3 * time.Second, 6 * time.Second, 9 * time.Second, 12 * time.Second, 16 * time.Second} {
				signal := []syscall.Signal{syscall.SIGINT, syscall.SIGKILL}[n%2]
				ctx, cancel := context.WithCancel(t.Context())
				words := []string{o.binary, "--dry-run", "--accelerator", "cpu", "--timeout", "30s", "--rehearse"}
				if o.everywhere {
					words = append(words, "-H", "hostfile")
				}
				cmd := o.at(ctx, o.hosts.Head, slices.Concat(words, []string{"--"}, o.typed(0))...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(after)
				_ = cmd.Process.Signal(signal) // it may have ended
				_ = cmd.Wait()
				cancel()
				o.leavesNothing(t)
			}
		})
	}
}

// leavesNothing waits until no process and no file of a rehearsal of this launch is left.
func (o *rehearsal) leavesNothing(t *testing.T) {
	t.Helper()
	var left []string
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		left = nil
		processes, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range processes {
			text, _ := os.ReadFile(file)
			words, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			if strings.Contains(string(text), "PYTHON_PREFLIGHT=") && strings.Contains(string(text), o.dir) {
				left = append(left, file+" "+strings.ReplaceAll(string(words), "\x00", " "))
			}
		}
		for _, n := range o.hosts.Machines() {
			found, err := n.Command(t.Context(), "sh", "-c", "ls -d /dev/shm/preflight-* /dev/shm/torch_* 2>/dev/null; ls /tmp | grep ^preflight-").Output()
			if text := strings.TrimSpace(string(found)); text != "" {
				left = append(left, n.Name+": "+text)
			}
			_ = err // ls and grep find nothing
		}
		if left == nil {
			return
		}
	}
	t.Errorf("left after 15 s: %q", left)
}
