// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"preflight/facts"
	"preflight/probe/machine"
	"preflight/testhosts/probetest"
)

// standing describes a process of a fixture.
type standing struct {
	pid, parent int
	argv        string // words separated by spaces
	environ     string // variables separated by commas, "-" if they may not be read
	state       string
	started     int // seconds from the start of the machine to the start of the process; the machine has run for 1000 seconds
	exit        int
	cwd         string
	maps        string
	sockets     []int // inodes of the sockets
	tracer      int
	network     string // inode of the network namespace, "" for that of the test
}

// plant creates a /proc with the processes and with rows for net/tcp.
func plant(t *testing.T, tcp string, all ...standing) machine.Options {
	t.Helper()
	o := machine.Options{Root: t.TempDir()}
	files := map[string]string{"/proc/uptime": "1000.00 2000.00\n", "/proc/net/tcp": tcp, "/etc/passwd": "ann:x:1000:1000::/home/ann:/bin/sh\n"}
	for _, p := range all {
		words := strings.Fields(p.argv)
		dir, comm := fmt.Sprintf("/proc/%d/", p.pid), "python3"
		if len(words) > 0 {
			comm = path.Base(words[0])
		}
		stat := fmt.Sprintf("%d (%s) %s %d %s %d %s%d\n", p.pid, comm, p.state, p.parent, strings.Repeat("0 ", 16)+"0", p.started*100, strings.Repeat("0 ", 29), p.exit)
		files[dir+"stat"] = stat
		files[fmt.Sprintf("%stask/%d/stat", dir, p.pid)] = stat
		files[dir+"cmdline"] = strings.ReplaceAll(p.argv, " ", "\x00") + "\x00"
		files[dir+"status"] = fmt.Sprintf("Name:\tx\nTracerPid:\t%d\nUid:\t1000\t1000\t1000\t1000\n", p.tracer)
		files[dir+"net/tcp"] = tcp
		files[dir+"wchan"] = "do_poll"
		files[dir+"maps"] = p.maps
		if p.environ != "-" {
			files[dir+"environ"] = strings.ReplaceAll(p.environ, ",", "\x00") + "\x00"
		}
	}
	probetest.Write(t, o, files)
	probetest.Link(t, o, "net:[1]", "/proc/self/ns/net")
	for _, p := range all {
		dir := fmt.Sprintf("/proc/%d/", p.pid)
		if p.network == "" {
			p.network = "1"
		}
		probetest.Link(t, o, "net:["+p.network+"]", dir+"ns/net")
		probetest.Link(t, o, "/dev/null", dir+"fd/0")
		if p.cwd != "" {
			probetest.Link(t, o, p.cwd, dir+"cwd")
		}
		for i, inode := range p.sockets {
			probetest.Link(t, o, fmt.Sprintf("socket:[%d]", inode), fmt.Sprintf("%sfd/%d", dir, i+3))
		}
	}
	return o
}

// line returns a line of /proc/net/tcp. Addresses are hexadecimal, as in the kernel.
func line(local, remote, state string, inode int) string {
	return fmt.Sprintf("   0: %s %s %s 00000000:00000000 00:00000000 00000000  1000        0 %d 1 0 100 0 0 10 0\n", local, remote, state, inode)
}

const header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

const rank = "PATH=/bin,HF_TOKEN=hf_secret,WORLD_SIZE=4,LOCAL_WORLD_SIZE=2,MASTER_ADDR=10.0.0.1,MASTER_PORT=29500"

func TestLook(t *testing.T) {
	launch := "/usr/bin/python3 -u -m deepspeed.launcher.launch --world_info=e30= --node_rank=0 --master_addr=10.0.0.1 --master_port=29500 train.py --master_port 7 --token hf_secret"
	o := plant(t, header+
		line("00000000:733C", "00000000:0000", "0A", 71)+ // listens on 0.0.0.0:29500
		line("0100000A:733C", "0200000A:9C40", "01", 72)+ // connection from 10.0.0.2
		line("0100000A:733C", "0300000A:9C41", "03", 0)+ // half-open connection from 10.0.0.3
		line("0100000A:9C42", "0100000A:733C", "01", 73)+
		line("0100000A:9C43", "050011AC:0050", "02", 74), // connects to 172.17.0.5:80
		standing{pid: 1, argv: "/sbin/init", state: "S"},
		standing{pid: 100, parent: 1, argv: launch, state: "S", started: 900},
		standing{pid: 101, parent: 100, argv: "/usr/bin/python3 -u train.py --local_rank=0 --token hf_secret", environ: rank + ",RANK=0,LOCAL_RANK=0", state: "S", started: 910, maps: "7f r /lib/libtorch_cpu.so\n", sockets: []int{71, 72, 73}},
		standing{pid: 102, parent: 100, argv: "/usr/bin/python3 -u train.py --local_rank=1", environ: rank + ",RANK=1,LOCAL_RANK=1", state: "S", started: 910, sockets: []int{74}},
		standing{pid: 103, parent: 102, argv: "/usr/bin/ninja -v", environ: rank + ",RANK=1,LOCAL_RANK=1", state: "R", started: 920, cwd: "/root/.cache/torch_extensions/py311_cu124/shm_comm"},
		standing{pid: 104, parent: 100, state: "Z", exit: 127 << 8},
		standing{pid: 105, parent: 100, argv: "/usr/bin/python3 -u train.py --local_rank=3", environ: "-", state: "D"},
		standing{pid: 200, parent: 1, argv: "/usr/bin/python3 train.py", environ: rank + ",RANK=1", state: "T", started: 10},
		standing{pid: 300, parent: 1, argv: "/usr/bin/python3 -m http.server", environ: "PATH=/bin", state: "S"},
	)
	got, err := Look(t.Context(), o, 0, map[string]string{"10.0.0.1": "eth0"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	number := func(n int) *int { return &n }
	yes, no := true, false
	meeting := func(rank, local *int) facts.Meeting {
		return facts.Meeting{Rank: rank, LocalRank: local, World: 4, Local: 2, Address: "10.0.0.1", Port: 29500}
	}
	want := &facts.Jobs{
		Addresses: map[string]string{"10.0.0.1": "eth0"},
		Processes: []facts.JobProcess{
			{PID: 100, Parent: 1, Kind: facts.JobLauncher, Program: "deepspeed.launcher.launch", Script: "train.py", User: "ann", State: "S", Age: 100, WaitsIn: "do_poll",
				Meeting: facts.Meeting{NodeRank: number(0), Address: "10.0.0.1", Port: 29500}},
			{PID: 101, Parent: 100, Kind: facts.JobRank, Launcher: 100, Script: "train.py", User: "ann", State: "S", Age: 90, WaitsIn: "do_poll", Torch: &yes, Meeting: meeting(number(0), number(0)),
				Sockets: []facts.JobSocket{
					{State: "LISTEN", Address: "0.0.0.0", Port: 29500},
					{State: "ESTAB", Address: "10.0.0.1", Port: 29500, Interface: "eth0", Remote: "10.0.0.2", RemotePort: 40000},
					{State: "ESTAB", Address: "10.0.0.1", Port: 40002, Interface: "eth0", Remote: "10.0.0.1", RemotePort: 29500},
				}},
			{PID: 102, Parent: 100, Kind: facts.JobRank, Launcher: 100, Script: "train.py", User: "ann", State: "S", Age: 90, Busy: true, WaitsIn: "do_poll", Torch: &no, Compiles: "shm_comm", CompilesFor: 80,
				Meeting: meeting(number(1), number(1)), Sockets: []facts.JobSocket{{State: "SYN-SENT", Address: "10.0.0.1", Port: 40003, Interface: "eth0", Remote: "172.17.0.5", RemotePort: 80}}},
			{PID: 104, Parent: 100, Kind: facts.JobRank, Launcher: 100, User: "ann", State: "Z", Age: 1000, WaitsIn: "do_poll", Exit: number(127)},
			{PID: 105, Parent: 100, Kind: facts.JobRank, Launcher: 100, Script: "train.py", User: "ann", State: "D", Age: 1000, Busy: true, WaitsIn: "do_poll", Torch: &no,
				Meeting: facts.Meeting{LocalRank: number(3)}, Unread: "no such file or directory"},
			{PID: 200, Parent: 1, Kind: facts.JobRank, Script: "train.py", User: "ann", State: "T", Age: 990, WaitsIn: "do_poll", Torch: &no, Meeting: meeting(number(1), nil)},
		},
		Ports: []facts.JobPort{{Port: 29500, Listening: true, Holder: 101, Callers: []facts.JobCaller{
			{Address: "10.0.0.2", State: "ESTAB", Count: 1}, {Address: "10.0.0.3", State: "SYN-RECV", Count: 1},
		}}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 0.01)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if told := fmt.Sprintf("%+v", got); strings.Contains(told, "secret") {
		t.Errorf("a secret is told: %s", told)
	}
}

// TestSlurm checks that a task of srun is a rank unless the task starts a launcher, and that a
// batch script is not a rank. Look must also recognize debuggers and other network namespaces.
func TestSlurm(t *testing.T) {
	const task = "SLURM_PROCID=1,SLURM_LOCALID=0,SLURM_NODEID=1,SLURM_NTASKS=2"
	o := plant(t, header,
		standing{pid: 100, parent: 1, argv: "slurmstepd: [118.batch]", state: "S"},
		standing{pid: 101, parent: 100, argv: "/bin/bash job.sh", environ: task, state: "S"},
		standing{pid: 200, parent: 1, argv: "slurmstepd: [118.0]", state: "S"},
		standing{pid: 201, parent: 200, argv: "/usr/bin/python3 train.py", environ: task + ",SLURM_STEP_NUM_TASKS=2", state: "t", tracer: 900, network: "2"},
		standing{pid: 300, parent: 1, argv: "slurmstepd: [118.1]", state: "S"},
		standing{pid: 301, parent: 300, argv: "/bin/bash -c torchrun_train.py", environ: task + ",SLURM_STEP_NUM_TASKS=2", state: "S"},
		standing{pid: 302, parent: 301, argv: "/usr/bin/python3 /usr/bin/torchrun train.py", environ: task + ",SLURM_STEP_NUM_TASKS=2", state: "S"},
		standing{pid: 303, parent: 302, argv: "/usr/bin/python3 train.py", environ: task + ",SLURM_STEP_NUM_TASKS=2,TORCHELASTIC_RESTART_COUNT=2," + rank + ",RANK=3", state: "S"},
	)
	got, err := Look(t.Context(), o, 0, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, p := range got.Processes {
		of := ""
		if p.Rank != nil {
			of = fmt.Sprintf(" %d of %d", *p.Rank, p.World)
		}
		told = append(told, fmt.Sprintf("%d %s%s tracer %d apart %t restarts %d", p.PID, p.Kind, of, p.Tracer, p.Apart, p.Restarts))
	}
	want := []string{
		"100 launcher tracer 0 apart false restarts 0", "200 launcher tracer 0 apart false restarts 0",
		"201 rank 1 of 2 tracer 900 apart true restarts 0", "300 launcher tracer 0 apart false restarts 0",
		"302 launcher tracer 0 apart false restarts 0", "303 rank 3 of 4 tracer 0 apart false restarts 2",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLaunchers checks that launchers and their rendezvous are recognized from command lines.
func TestLaunchers(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/python3 /usr/local/bin/torchrun --nnodes=2:4 --nproc-per-node 8 --rdzv-backend c10d --rdzv_endpoint=w1 --rdzv-id=run7 train.py --rdzv-id=no": "launcher torchrun w1:29400 run7 2:4 8",
		"python -m torch.distributed.run --nnodes 2 --node_rank 1 --master_addr w1 --master_port 29501 -m pkg.train":                                           "launcher torchrun w1:29501  2 0",
		"/opt/conda/bin/python /opt/conda/bin/accelerate launch --num_machines 2 --machine_rank=1 --main_process_ip 10.0.0.1 --main_process_port 29500 t.py":   "launcher accelerate 10.0.0.1:29500  2 0",
		"/usr/bin/python3 -u /opt/lib/deepspeed/launcher/launcher_helper.py --launcher mpich train.py --master_port 7":                                         "launcher launcher_helper.py :0   0",
		"orted -mca ess env":  "launcher orted :0   0",
		"slurmstepd: [118.0]": "launcher slurmstepd :0   0",
		"/usr/bin/python3 /root/.local/bin/deepspeed --hostfile h train.py":      "runner deepspeed :0   0",
		"mpirun -n 4 python train.py":                                            "runner mpirun :0   0",
		"/usr/bin/python3 train.py torchrun":                                     "  :0   0",
		"/usr/bin/python3 /usr/bin/torchrun --nnodes 2 train.py --master_port 7": "launcher torchrun :0  2 0",
		"bash -c torchrun": "  :0   0",
	} {
		argv := strings.Fields(line)
		kind, program := launcher(argv)
		m := launcherMeeting(argv)
		if got := fmt.Sprintf("%s %s %s:%d %s %s %d", kind, program, m.Address, m.Port, m.RunID, m.Nodes, m.Local); got != want {
			t.Errorf("%s\n got %q\nwant %q", line, got, want)
		}
	}
}

// TestLocks checks that a rank has the torch build locks that it can see, each with the process
// that holds it open.
func TestLocks(t *testing.T) {
	at := func(pid int, file string) string { return fmt.Sprintf("/proc/%d/root%s", pid, file) }
	held, left, named := "/home/ann/.cache/torch_extensions/py311_cu124/fused_adam/lock", "/home/ann/.cache/torch_extensions/py311_cu124/shm_comm/lock", "/scratch/ops/cpu_adam/lock"
	o := plant(t, header,
		standing{pid: 100, parent: 1, argv: "/usr/bin/python3 train.py", environ: rank + ",RANK=0,HOME=/home/ann", state: "S"},
		standing{pid: 101, parent: 1, argv: "/usr/bin/python3 train.py", environ: rank + ",RANK=1,HOME=/home/ann,TORCH_EXTENSIONS_DIR=/scratch/ops", state: "S"},
		standing{pid: 102, parent: 1, argv: "/usr/bin/python3 train.py", environ: rank + ",RANK=2,HOME=/home/ann,XDG_CACHE_HOME=/scratch/cache", state: "S"},
		standing{pid: 103, parent: 1, argv: "/usr/bin/python3 train.py", environ: rank + ",RANK=3,HOME=/home/ann", state: "D"}, // the rank's home directory may be on a server that does not answer
		standing{pid: 104, parent: 1, argv: "/usr/bin/python3 -m build", state: "S"},
		standing{pid: 105, parent: 1, argv: "/usr/bin/python3 train.py", environ: rank + ",RANK=4,HOME=/home/ann,TORCH_EXTENSIONS_DIR=ops", state: "S", cwd: "/job"},
	)
	probetest.Write(t, o, map[string]string{
		at(100, held): "", at(100, left): "", at(100, path.Dir(left)+"/build.ninja"): "", at(101, named): "", at(101, held): "", at(103, left): "", at(105, "/job/ops/cpu_adam/lock"): "",
		"/elsewhere/lock": "",
	})
	probetest.Link(t, o, o.At(at(100, held)), "/proc/104/fd/3")
	probetest.Link(t, o, o.At("/elsewhere/lock"), "/proc/104/fd/4")
	got, err := Look(t.Context(), o, 0, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, p := range got.Processes {
		for _, lock := range p.Locks {
			told = append(told, fmt.Sprintf("%d %s held by %d", p.PID, lock.Path, lock.Holder))
			if lock.Made == 0 || lock.Age < 0 || lock.Age > 60 {
				t.Errorf("when was it made? %+v", lock)
			}
		}
	}
	want := []string{"100 " + held + " held by 104", "100 " + left + " held by 0", "101 " + named + " held by 0", "105 /job/ops/cpu_adam/lock held by 0"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestOOMKills checks that kills in a rank's own cgroup count, and kills in parent cgroups with a
// memory limit, in both cgroup versions.
func TestOOMKills(t *testing.T) {
	const v2, v1 = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	for name, c := range map[string]struct {
		mounts, cgroup string
		files          map[string]string
		want           int
	}{
		"its own": {v2, "0::/job/step", map[string]string{"/sys/fs/cgroup/job/step/memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 0\n"}, 2},
		"a job with a limit": {v2, "0::/job/step", map[string]string{
			"/sys/fs/cgroup/job/step/memory.events": "oom_kill 0\n", "/sys/fs/cgroup/job/memory.events": "oom_kill 4\n", "/sys/fs/cgroup/job/memory.max": "1073741824\n"}, 4},
		"all sessions of the machine": {v2, "0::/user.slice/session", map[string]string{
			"/sys/fs/cgroup/user.slice/session/memory.events": "oom_kill 0\n", "/sys/fs/cgroup/user.slice/memory.events": "oom_kill 9\n", "/sys/fs/cgroup/user.slice/memory.max": "max\n"}, 0},
		"version 1": {v1, "4:memory:/job", map[string]string{"/sys/fs/cgroup/memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"}, 1},
		"version 1, no limit above": {v1, "4:memory:/slice/job", map[string]string{
			"/sys/fs/cgroup/memory/slice/memory.oom_control": "oom_kill 5\n", "/sys/fs/cgroup/memory/slice/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"no cgroups": {"", "0::/job", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := plant(t, header, standing{pid: 100, parent: 1, argv: "/usr/bin/python3 train.py", environ: rank + ",RANK=0", state: "S"})
			probetest.Write(t, o, c.files)
			probetest.Write(t, o, map[string]string{"/proc/self/mountinfo": c.mounts, "/proc/100/cgroup": c.cgroup + "\n"})
			got, err := Look(t.Context(), o, 0, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			if kills := got.Processes[0].OOMKills; kills != c.want {
				t.Errorf("%d, want %d", kills, c.want)
			}
		})
	}
}
