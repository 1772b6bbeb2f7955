// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"testing"

	"preflight/testhosts"
)

// These programs are stand-ins for a launcher on a node, under any name, and for the ranks that the
// launcher starts. Rank 0 serves a store that accepts connections, and the ranks connect to it.
// Each rank does what its mode says and prints the mode in a line. The stand-ins themselves have no
// name by which preflight recognizes real programs.
const (
	hangMeeting = `
import os, socket, threading, time
taken = []
def hear(one):
    if one.recv(1):
        open('/root/disturbed', 'w').close()
def accept(store):
    while True:
        taken.append(store.accept()[0])
        if os.access('/root', os.W_OK): # as another user's is not
            with open('/root/taken', 'w') as log:
                log.write(str(len(taken)))
        threading.Thread(target=hear, args=(taken[-1],), daemon=True).start()
def serve(port): # as torch does: at all addresses of both families
    store = socket.create_server(('::', port), family=socket.AF_INET6, dualstack_ipv6=True)
    threading.Thread(target=accept, args=(store,), daemon=True).start()
def call(host, port, rest):
    while True:
        try:
            return socket.create_connection((host, port))
        except OSError:
            time.sleep(rest)
`
	hangLauncher = `
import os, signal, subprocess, sys
sys.path.insert(0, '/root/hung')
import meeting
os.setsid()
os.makedirs('/root/hung/bin', exist_ok=True)
if not os.path.exists('/root/hung/bin/python3'): # as of a virtual environment
    os.symlink('/usr/bin/python3', '/root/hung/bin/python3')
if os.environ['AS']:
    os.chmod('/root', 0o711)
    os.setgroups([])
    os.setgid(int(os.environ['AS']))
    os.setuid(int(os.environ['AS']))
print(os.getpid(), flush=True)
host, port, first, modes = os.environ['CREW'].split(None, 3)
lead, modes = modes.split()[0], modes.split()[1:]
if lead == 'host':
    meeting.serve(int(port))
if lead in ('host', 'gather'):
    held = meeting.call(host, int(port), .1)
    print(lead, flush=True)
ranks = []
for local, mode in enumerate(modes):
    rank = int(first) + local
    if mode == 'none':
        continue
    tells = dict(one.split('=', 1) for one in os.environ['TELLS'].format(rank=rank, local=local).split())
    env = dict(os.environ, HOME='/root', PART='%d %s' % (rank, mode), **tells)
    argv = ['/root/hung/bin/python3', '-u', '/root/hung/train.py', '--local_rank=%d' % local]
    if mode == 'apart':
        argv = ['/usr/bin/unshare', '--net'] + argv
    ranks.append(subprocess.Popen(argv, env=env))
if 'leave' in modes:
    sys.stdin.readline()
    os._exit(0)
if lead == 'stop':
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGSTOP)
sys.stdin.read()
`
	hangTrain = `
import ctypes, os, signal, subprocess, sys, time
import meeting
rank, mode = os.environ['PART'].split()
self = os.getpid()
host, port = os.environ['CREW'].split()[:2]
if rank == '0' and mode != 'sleep':
    meeting.serve(int(port))
def said():
    print(rank, mode, flush=True)
def build():
    at = '/root/torch_extensions/py311_cpu/shm_comm'
    os.makedirs(at, exist_ok=True)
    try: os.symlink('/bin/sleep', '/root/ninja')
    except FileExistsError: pass
    subprocess.Popen(['/root/ninja', '1000'], cwd=at)
def wait(): # for whoever has made the lock, as torch does
    at = os.environ['HOME'] + '/.cache/torch_extensions/py311_cpu/fused_adam'
    os.makedirs(at, exist_ok=True)
    open(at + '/lock', 'w').close()
    said()
    while os.path.exists(at + '/lock'):
        time.sleep(.1)
if mode in ('exit', 'kill'):
    said()
    os._exit(127) if mode == 'exit' else os.kill(os.getpid(), signal.SIGKILL)
if mode == 'compile':
    build()
if mode in ('call', 'compile', 'sleep', 'import', 'apart'):
    said()
if mode == 'import':
    os.nice(19)
    while True: pass
if mode not in ('compile', 'sleep'): # torch's own ranks rest for a second and more
    held = meeting.call(host if mode != 'apart' else '::1', int(port), 2 if mode == 'call' else .1)
if mode == 'build':
    build()
if mode == 'trace' and os.fork() == 0:
    libc = ctypes.CDLL(None)
    libc.ptrace(16, os.getppid(), None, None) # PTRACE_ATTACH
    os.waitpid(os.getppid(), 0)
if mode == 'write':
    out = os.pipe()
    os.set_blocking(out[1], False)
    try:
        while True: os.write(out[1], b'x' * 4096)
    except BlockingIOError:
        os.set_blocking(out[1], True)
if mode in ('meet', 'leave', 'build', 'stop', 'write') or mode == 'trace' and os.getpid() != self:
    said()
if mode == 'wait':
    wait()
if mode == 'stop':
    os.kill(os.getpid(), signal.SIGSTOP)
if mode == 'write':
    os.write(out[1], b'x' * 65536)
time.sleep(1000)
`
)

// launchers maps the names of launchers to their command line and to the variables that they give
// their ranks. {node} is the number of the node, and {world} is the number of ranks. {host} and
// {port} are the rendezvous address. {told} stands for additional options.
var launchers = map[string]struct{ line, tells string }{
	"": {"/usr/bin/python3 -u -m deepspeed.launcher.launch --world_info=e30= --node_rank={node} --master_addr={host} --master_port={port} train.py",
		"MASTER_ADDR={host} MASTER_PORT={port} WORLD_SIZE={world} LOCAL_SIZE=2 RANK={rank} LOCAL_RANK={local}"},
	"torchrun": {"/usr/bin/python3 -u -m torch.distributed.run {told} --nnodes=4 --nproc-per-node=2 --master-addr={host} --master-port={port} train.py",
		"MASTER_ADDR={host} MASTER_PORT={port} WORLD_SIZE={world} LOCAL_WORLD_SIZE=2 RANK={rank} LOCAL_RANK={local} GROUP_RANK={node} TORCHELASTIC_RUN_ID=none"},
	"c10d": {"/usr/bin/python3 -u -m torch.distributed.run {told} --nnodes=4 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id=run7 --rdzv-endpoint=w1:{port} train.py",
		"MASTER_ADDR={host} MASTER_PORT={port} WORLD_SIZE={world} LOCAL_WORLD_SIZE=2 RANK={rank} LOCAL_RANK={local} GROUP_RANK={node} TORCHELASTIC_RUN_ID=run7 TORCHELASTIC_RESTART_COUNT=2"},
	"accelerate": {"/usr/bin/python3 -u -m accelerate.commands.launch --num_machines=4 --machine_rank={node} --main_process_ip={host} --main_process_port={port} train.py",
		"MASTER_ADDR={host} MASTER_PORT={port} WORLD_SIZE={world} LOCAL_WORLD_SIZE=2 RANK={rank} LOCAL_RANK={local}"},
	"mpirun": {"orted -u crew -mca ess env",
		"MASTER_ADDR={host} MASTER_PORT={port} OMPI_COMM_WORLD_SIZE={world} OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK={rank} OMPI_COMM_WORLD_LOCAL_RANK={local}"},
	"srun": {"slurmstepd:_[118.0] -u crew",
		"MASTER_ADDR={host} MASTER_PORT={port} SLURM_STEP_NUM_TASKS={world} SLURM_PROCID={rank} SLURM_LOCALID={local}"},
	"untold": {"slurmstepd:_[118.0] -u crew", "SLURM_STEP_NUM_TASKS={world} SLURM_PROCID={rank} SLURM_LOCALID={local}"},
	"hand":   {"/usr/bin/python3 -u launcher.py", "MASTER_ADDR={host} MASTER_PORT={port} WORLD_SIZE={world} RANK={rank}"},
}

// jobPart is the part of a job on one node. It says which program starts the part, which settings
// the ranks get, what the launcher does, and what its two ranks do. A launcher may host or gather
// (torchrun's rendezvous before it starts ranks) or stop. The modes of ranks are meet, call
// (without success), sleep, import, compile, build (after meeting), wait (for the lock of an op),
// stop, trace, write (to a pipe that is not read), exit, kill, leave (the launcher ends), apart (in
// a separate network) and none.
type jobPart struct {
	node    int // counted from 1
	by      string
	address string
	port    int
	world   int
	first   int // the first rank on the node; 0 means the rank that follows from the node's number, and -1 means rank 0
	told    string
	lead    string
	modes   string
	user    string // ID of a user other than root
}

// installStandIns copies the stand-ins to all nodes.
func installStandIns(t *testing.T, cluster *testhosts.Cluster) {
	t.Helper()
	files := map[string]string{"meeting.py": hangMeeting, "launcher.py": hangLauncher, "crew": hangLauncher, "train.py": hangTrain}
	for _, module := range []string{"deepspeed/launcher/launch.py", "torch/distributed/run.py", "accelerate/commands/launch.py"} {
		files[module] = hangLauncher
		for dir := path.Dir(module); dir != "."; dir = path.Dir(dir) {
			files[dir+"/__init__.py"] = ""
		}
	}
	for name, text := range files {
		if err := cluster.Put("/root/hung/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// startPart starts a part of a job and waits until each rank has printed that it has reached its
// mode. end ends the part.
func startPart(t *testing.T, cluster *testhosts.Cluster, c jobPart) (end func()) {
	t.Helper()
	if c.address == "" {
		c.address = "10.77.1.1"
	}
	if c.port == 0 {
		c.port = 29500
	}
	if c.world == 0 {
		c.world = 8
	}
	if c.first == 0 {
		c.first = 2 * (c.node - 1)
	}
	node := cluster.Nodes[c.node-1]
	fill := strings.NewReplacer("{node}", strconv.Itoa(c.node-1), "{host}", c.address, "{port}", strconv.Itoa(c.port), "{world}", strconv.Itoa(c.world), "{told}", c.told)
	argv := strings.Fields(fill.Replace(launchers[c.by].line))
	argv[0] = strings.ReplaceAll(argv[0], "_", " ")
	cmd := node.Command(t.Context(), append([]string{"/usr/bin/python3"}, argv[1:]...)...)
	cmd.Args[0], cmd.Dir = argv[0], "/root/hung"
	cmd.Env = append(cmd.Env, "TELLS="+fill.Replace(launchers[c.by].tells), fmt.Sprintf("CREW=%s %d %d %s %s", c.address, c.port, max(c.first, 0), cmp.Or(c.lead, "launch"), c.modes), "AS="+c.user)
	out, outErr := cmd.StdoutPipe()
	in, inErr := cmd.StdinPipe()
	if err := errors.Join(outErr, inErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	pid := lines.Text()
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatalf("the launcher of %s printed %q", node.Name, pid)
	}
	for _, mode := range strings.Fields(strings.TrimPrefix(c.lead, "stop") + " " + c.modes) {
		if mode != "none" && !lines.Scan() {
			t.Fatalf("a rank of %s in mode %s printed nothing", node.Name, mode)
		}
	}
	if strings.Contains(c.modes, "leave") || c.lead == "stop" {
		if _, err := io.WriteString(in, "go\n"); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(c.modes, "leave") {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if _, err := node.Run(t.Context(), "/bin/kill", "-KILL", "--", "-"+pid); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the process was killed
		if _, err := node.Run(t.Context(), "/bin/rm", "-f", "/root/taken", "/root/disturbed", "/root/.cache/torch_extensions/py311_cpu/fused_adam/lock"); err != nil {
			t.Error(err)
		}
	}
}
