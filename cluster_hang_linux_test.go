// SPDX-License-Identifier: Apache-2.0

package preflight_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"preflight"
	"preflight/checks/hang"
	"preflight/testhosts"
)

// Stand-ins of DeepSpeed's launcher on a node and of what it starts: a store that takes calls
// and ranks that call it. Each rank does what it was told to (mode) and says so in a line.
const (
	hangLauncher = `
import os, subprocess, sys
told = dict(word.lstrip('-').split('=', 1) for word in sys.argv[1:] if '=' in word)
os.setsid()
print(os.getpid(), flush=True)
ranks = []
for local, mode in enumerate(os.environ['MODES'].split()):
    rank = 2 * int(told['node_rank']) + local
    if mode == 'none':
        continue
    env = dict(os.environ, MASTER_ADDR=told['master_addr'], MASTER_PORT=told['master_port'], WORLD_SIZE='8', LOCAL_SIZE='2', RANK=str(rank), LOCAL_RANK=str(local), MODE=mode)
    ranks.append(subprocess.Popen([sys.executable, '-u', 'train.py', '--local_rank=%d' % local], env=env))
if 'leave' in os.environ['MODES']:
    sys.stdin.readline()
    os._exit(0)
sys.stdin.read()
`
	hangTrain = `
import os, signal, socket, subprocess, sys, threading, time
rank, mode, at = int(os.environ['RANK']), os.environ['MODE'], (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))
taken = []
def serve(store):
    while True:
        one, _ = store.accept()
        taken.append(one)
        with open('/root/taken', 'w') as log:
            log.write(str(len(taken)))
        threading.Thread(target=hear, args=(one,), daemon=True).start()
def hear(one):
    if one.recv(1):
        open('/root/disturbed', 'w').close()
if rank == 0 and mode != 'sleep':
    threading.Thread(target=serve, args=(socket.create_server(('0.0.0.0', at[1])),), daemon=True).start()
def said():
    print(rank, mode, flush=True)
if mode == 'exit':
    said()
    os._exit(127)
if mode == 'compile':
    os.makedirs('/root/torch_extensions/py311_cpu/shm_comm', exist_ok=True)
    if not os.path.exists('/root/ninja'):
        try: os.symlink('/bin/sleep', '/root/ninja')
        except FileExistsError: pass
    subprocess.Popen(['/root/ninja', '1000'], cwd='/root/torch_extensions/py311_cpu/shm_comm')
if mode in ('call', 'compile', 'sleep'):
    said()
while mode not in ('compile', 'sleep'):
    try:
        call = socket.create_connection(at)
        break
    except OSError:
        time.sleep(2 if mode == 'call' else .1) # torch's own ranks rest for a second and more
if mode == 'stop':
    said()
    os.kill(os.getpid(), signal.SIGSTOP)
if mode in ('meet', 'leave'):
    said()
time.sleep(1000)
`
)

// crew is what the launcher of a node is told, and what its two ranks do: meet, call (and get
// nowhere), sleep, stop, exit, compile, leave (the launcher ends), none.
type crew struct {
	node    int // counted from 1
	address string
	port    int
	modes   string
}

// hung are jobs that wait, and what is to be said of them. At w1 rank 0 serves.
var hung = []struct {
	name  string
	plant func(*testhosts.Cluster) (testhosts.Undo, error)
	crews map[int]crew // those that differ from a crew that meets
	more  []crew
	want  string
	code  int
}{
	{name: "all have met", want: "8 of 8 ranks have met at 10.77.1.1:29500; all have met, so that what hangs comes after it"},
	{name: "no launcher", crews: map[int]crew{3: {}}, code: 1,
		want: "6 of 8 ranks have met at 10.77.1.1:29500; w3: no process of this job runs there: its launcher was not started or has ended"},
	{name: "a launcher without ranks", crews: map[int]crew{3: {modes: "none none"}}, code: 1,
		want: "6 of 8 ranks have met at 10.77.1.1:29500; w3: its launcher (deepspeed.launcher.launch, since A) runs no rank"},
	{name: "a rank was not started", crews: map[int]crew{3: {modes: "meet none"}}, code: 1,
		want: "7 of 8 ranks have met at 10.77.1.1:29500; w3: 1 of its 2 ranks run: the others have ended"},
	{name: "a rank has ended", crews: map[int]crew{3: {modes: "meet exit"}}, code: 1,
		want: "7 of 8 ranks have met at 10.77.1.1:29500; w3: a rank: ended with 127, and nobody has noticed"},
	{name: "a rank is stopped", crews: map[int]crew{4: {modes: "stop meet"}}, code: 1,
		want: "8 of 8 ranks have met at 10.77.1.1:29500; w4: rank 6: stopped, by a signal or a debugger"},
	{name: "another address", crews: map[int]crew{3: {address: "10.77.1.4", modes: "call call"}}, code: 1,
		want: "6 of 8 ranks have met at 10.77.1.1:29500; w3: its 2 ranks were told to meet at address 10.77.1.4 and not 10.77.1.1"},
	{name: "another port", crews: map[int]crew{3: {port: 29501, modes: "call call"}}, code: 1,
		want: "6 of 8 ranks have met at 10.77.1.1:29500; w3: its 2 ranks were told to meet at port 29501 and not 29500"},
	{name: "a firewall", plant: on("w1", func(n *testhosts.Node) (testhosts.Undo, error) { return n.DropFrom(n.Peers()[1], "29500") }),
		crews: map[int]crew{3: {modes: "call call"}}, code: 1,
		want: "6 of 8 ranks have met at 10.77.1.1:29500; w3: ranks 4, 5: no answer from 10.77.1.1:29500, which is called by eth0: what is sent there is dropped, or nobody is there"},
	{name: "an op is compiled", crews: map[int]crew{4: {modes: "compile compile"}},
		want: "6 of 8 ranks have met at 10.77.1.1:29500; w4: ranks 6, 7: compiling shm_comm since A"},
	{name: "nobody serves yet", crews: map[int]crew{1: {modes: "sleep call"}, 2: {modes: "call call"}, 3: {modes: "call call"}, 4: {modes: "call call"}},
		want: "0 of 8 ranks have met at 10.77.1.1:29500; w1: rank 0: started A ago, no call yet; w1, w2, w3 and 1 more: ranks 1, 2, 3, 4, 5, 6, 7: waiting for the store, which nobody serves"},
	{name: "two jobs at one port", more: []crew{{node: 2, modes: "meet meet"}}, code: 1,
		want: "8 of 8 ranks have met at 10.77.1.1:29500; w2: two jobs meet at port 29500: each takes the other's ranks for its own"},
	{name: "an earlier job's ranks", more: []crew{{node: 2, modes: "leave leave"}}, code: 1,
		want: "8 of 8 ranks have met at 10.77.1.1:29500; w2: ranks 2, 3 of an earlier job: still there since A, without a launcher, with their ports, GPUs and places in the meeting"},
	{name: "another job at another port", more: []crew{{node: 2, port: 29511, modes: "call call"}},
		want: "8 of 8 ranks have met at 10.77.1.1:29500; all have met, so that what hangs comes after it"},
}

// TestHang asks about jobs that wait, on real hosts, and every job waits on unharmed.
func TestHang(t *testing.T) {
	cluster := raise(t, "hang")
	for path, text := range map[string]string{
		"/root/hung/deepspeed/__init__.py": "", "/root/hung/deepspeed/launcher/__init__.py": "",
		"/root/hung/deepspeed/launcher/launch.py": hangLauncher, "/root/hung/train.py": hangTrain,
	} {
		if err := cluster.Put(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range hung {
		t.Run(h.name, func(t *testing.T) {
			if h.plant != nil {
				undo, err := h.plant(cluster)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := undo(); err != nil {
						t.Error(err)
					}
				}()
			}
			crews := h.more
			for i := 4; i > 0; i-- {
				c, differs := h.crews[i]
				if c.node = i; !differs {
					c.modes = "meet meet"
				}
				if c.modes != "" {
					crews = append([]crew{c}, crews...)
				}
			}
			for _, c := range crews {
				defer board(t, cluster, c)()
			}
			before := undisturbed(t, cluster)
			report := askHang(t, cluster, h.code)
			if got := ageless(report.Answer); got != h.want {
				t.Errorf("answer\n got %s\nwant %s", got, h.want)
			}
			if after := undisturbed(t, cluster); after != before {
				t.Errorf("the job does not wait on unharmed: before\n%s\nafter\n%s", before, after)
			}
		})
	}
}

// board starts a crew and waits until each of its ranks has said that it does what it was told.
// It returns what ends them.
func board(t *testing.T, cluster *testhosts.Cluster, c crew) (end func()) {
	t.Helper()
	if c.address == "" {
		c.address = "10.77.1.1"
	}
	if c.port == 0 {
		c.port = 29500
	}
	node := cluster.Nodes[c.node-1]
	cmd := node.Command(t.Context(), "/usr/bin/python3", "-u", "-m", "deepspeed.launcher.launch", "--world_info=e30=",
		fmt.Sprintf("--node_rank=%d", c.node-1), "--master_addr="+c.address, fmt.Sprintf("--master_port=%d", c.port), "train.py")
	cmd.Dir, cmd.Env = "/root/hung", append(cmd.Env, "MODES="+c.modes)
	out, outErr := cmd.StdoutPipe()
	in, inErr := cmd.StdinPipe()
	if err := errors.Join(outErr, inErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	pid := lines.Text()
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatalf("the launcher of %s says %q", node.Name, pid)
	}
	for _, mode := range strings.Fields(c.modes) {
		if mode != "none" && !lines.Scan() {
			t.Fatalf("a rank of %s that was to %s says nothing", node.Name, mode)
		}
	}
	if strings.Contains(c.modes, "leave") {
		if _, err := io.WriteString(in, "go\n"); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if _, err := node.Run(t.Context(), "/bin/kill", "-KILL", "--", "-"+pid); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
		if _, err := node.Run(t.Context(), "/bin/rm", "-f", "/root/taken", "/root/disturbed"); err != nil {
			t.Error(err)
		}
	}
}

// ages are those of processes, which differ from run to run.
var ages = regexp.MustCompile(`(since|started) [0-9.]+ (ms|s|min)`)

func ageless(answer string) string { return ages.ReplaceAllString(answer, "$1 A") }

// undisturbed is what runs of the job on every node, and what its store has taken and heard.
func undisturbed(t *testing.T, cluster *testhosts.Cluster) string {
	t.Helper()
	var all strings.Builder
	for _, node := range cluster.Nodes {
		out, err := node.Run(t.Context(), "/bin/sh", "-c", "ps -eo pid=,stat=,args= | grep -E 'train.py|ninja' | grep -v grep; cat /root/taken /root/disturbed 2>&1 | grep -v disturbed")
		if err != nil && out == "" {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n%s\n", node.Name, out)
	}
	return all.String()
}

// askHang has preflight say who is missing.
func askHang(t *testing.T, cluster *testhosts.Cluster, code int) (report hang.Report) {
	t.Helper()
	cmd := cluster.OnHead(t.Context(), binary(t), "hang", "-H", testhosts.HostfilePath, "--format", "json")
	cmd.Dir = preflight.Programs
	out, err := cmd.Output()
	ended, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && ended == nil:
		t.Fatal(err)
	case ended == nil && code != 0, ended != nil && ended.ExitCode() != code:
		t.Errorf("ended by %v, want exit code %d", err, code)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return report
}
