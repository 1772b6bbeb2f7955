// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	{planted{name: "older-module", files: ofModule, steps: sh("w2", `alone "$dir"; echo 'def collate_batch(): pass' >"$dir/helper.py"`), dies: "pdsh"}, "w2", "cannot import name 'collate'"},
	{planted{name: "cut-library", files: map[string]string{"train.py": "import psutil\n"}, steps: sh("w2", `alone "$site"; truncate -s 9000 "$site"/psutil/_psutil_linux*.so`), dies: "static"}, "w2", ""},
	{planted{name: "large-stacks", steps: sh("w2", `echo export OMP_STACKSIZE=9000000G OMP_NUM_THREADS=2 >>/root/.bashrc`), dies: "c10d"}, "w2", "thread"},
	{planted{name: "broken-settings", steps: sh("w2", `mkdir -p /root/.cache/huggingface/accelerate
printf 'mixed_precision: no\n  num_processes: 3\n' >/root/.cache/huggingface/accelerate/default_config.yaml`), dies: "accelerate"}, "w2", "yaml"},
	{planted{name: "other-port", nodes: 3, steps: sh("w2", `alone "$site"
echo 'import os; os.environ.update(MASTER_PORT="1") if "RANK" in os.environ else None' >"$site/site_proxy.pth"`), dies: "pdsh"}, "w2", ":1"},
	{planted{name: "drops-long-connections", nodes: 3, steps: sh("w2", `
iptables -A INPUT -p tcp --dport 22 -j ACCEPT
iptables -A INPUT -p tcp --sport 22 -j ACCEPT
iptables -A INPUT -i eth0 -p tcp -m connbytes --connbytes 1000000: --connbytes-dir both --connbytes-mode bytes -j DROP`), dies: "c10d"}, "w2", "no answer"},
	{planted{name: "no-fork", files: importing(workers), steps: sh("w2", `alone "$site"
cat >"$site/sandbox.py" <<'END'
import ctypes, struct
load, equal, has, answer = 0x20, 0x15, 0x45, 0x06
# clone without CLONE_VM is a fork; it gets EPERM
words = [(load, 0, 0, 0), (equal, 0, 3, 56), (load, 0, 0, 16), (has, 1, 0, 0x100), (answer, 0, 0, 0x50001), (answer, 0, 0, 0x7fff0000)]
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(words), ctypes.addressof(text)))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
libc.prctl(22, 2, ctypes.byref(program))
END
echo 'import sandbox' >"$site/sandbox.pth"`), dies: "static"}, "w2", "os.fork()"},
}

// ofModule is a script with a module of its own.
var ofModule = map[string]string{"train.py": "import torch\nfrom helper import collate\n", "helper.py": "def collate(): pass\n"}

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
	t.Parallel()
	binary, installed := launchedBy(t)
	for _, u := range unforeseen {
		for by := range strings.FieldsSeq(u.dies) {
			i := slices.IndexFunc(launchers, func(l launcher) bool { return l.name == by })
			o := rehearsal{planted: u.planted, rehearsed: true, launcher: launchers[i], runner: installed, binary: binary}
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

var rounds = flag.Int("rounds", 1, "how often TestHealthyRehearsal rehearses each launch")

// TestHealthyRehearsal rehearses launches on four healthy nodes. They must pass and leave the
// machines as they were.
func TestHealthyRehearsal(t *testing.T) {
	t.Parallel()
	binary, installed := launchedBy(t)
	for _, by := range []string{"pdsh", "openmpi", "c10d", "static", "accelerate"} {
		i := slices.IndexFunc(launchers, func(l launcher) bool { return l.name == by })
		o := rehearsal{planted: planted{name: "healthy", nodes: 4}, rehearsed: true, launcher: launchers[i], runner: installed, binary: binary}
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			o.raise(t)
			o.plant(t)
			before := o.contents(t)
			for range *rounds {
				began := time.Now()
				verdict := o.judge(t)
				t.Logf("%d after %.0f s", verdict.ExitCode, time.Since(began).Seconds())
				if verdict.ExitCode != 0 {
					t.Errorf("preflight ends with %d: %s %+v", verdict.ExitCode, verdict.complaint, verdict.Findings)
				}
				o.leavesNothing(t)
				if diff := cmp.Diff(before, o.contents(t)); diff != "" {
					t.Errorf("a rehearsal changed (-before +after):\n%s", diff)
				}
			}
		})
	}
}

// contents returns the names of files in the directories to which launches write, the environment
// file of DeepSpeed, and the ports on which programs listen, for each machine. It leaves out the
// directory that torch makes for its compiler, and the directory with the agent.
func (o *rehearsal) contents(t *testing.T) map[string]string {
	t.Helper()
	seen := map[string]string{}
	for _, n := range o.hosts.Machines() {
		cmd := n.Command(t.Context(), "sh", "-c", `ls -A /dev/shm /tmp ~ . | grep -v -e torchinductor_ -e "^.cache\$"; cat ~/.deepspeed_env .deepspeed_env 2>&1; ss -ltnH | awk '{print $4}' | sort`)
		cmd.Dir = o.dir
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", n.Name, err)
		}
		seen[n.Name] = string(text)
	}
	return seen
}

// TestRehearsalIsCutOff interrupts and kills preflight at several moments of a rehearsal. Nothing
// may be left on any machine after 15 s.
func TestRehearsalIsCutOff(t *testing.T) {
	t.Parallel()
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
