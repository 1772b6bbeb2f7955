// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"preflight/checks"
	"preflight/facts"
)

// still returns a cluster whose ranks have met, were watched, and wait for each other in gloo.
func still() []Node {
	nodes := cluster()
	for i := range nodes {
		for k := range of(nodes, i+1) {
			p := &of(nodes, i+1)[k]
			p.WaitsIn = "futex_do_wait"
			p.Watch = &facts.Watch{Seconds: 2, Files: new(int64), Flows: []facts.JobFlow{{Remote: fmt.Sprintf("10.0.0.%d", (i+1)%4+1), RemotePort: 41000 + k}}}
		}
	}
	return nodes
}

// in returns a change that makes the ranks of all nodes wait in a kernel function.
func in(function string) func(*facts.JobProcess) {
	return func(p *facts.JobProcess) { p.WaitsIn = function }
}

// dump returns a stack as py-spy prints it. Frames are separated by semicolons, innermost first.
func dump(pid int, changed bool, frames string) facts.Stack {
	s := facts.Stack{PID: pid, Changed: changed, Lines: []string{fmt.Sprintf("Thread %d (idle): \"MainThread\"", pid)}}
	for frame := range strings.SplitSeq(frames, ";") {
		s.Lines = append(s.Lines, "    "+frame)
	}
	s.Lines = append(s.Lines, `Thread 7 (idle): "pin"`, "    wait (threading.py:320)")
	return s
}

const (
	reducing     = "all_reduce (torch/distributed/distributed_c10d.py:2501);wrapper (torch/distributed/c10d_logger.py:81);step (train.py:12);<module> (train.py:30)"
	broadcasting = "broadcast (torch/distributed/distributed_c10d.py:2100);wrapper (torch/distributed/c10d_logger.py:81);<module> (train.py:31)"
	loading      = "wait (threading.py:320);get (queue.py:171);load (train.py:17);<module> (train.py:30)"
)

// stacks gives every rank the stack, and those of the fourth node another one.
func stacks(nodes []Node, all, fourth string, changed bool) {
	for i := range nodes {
		frames := all
		if i == 3 {
			frames = fourth
		}
		for _, p := range of(nodes, i+1) {
			nodes[i].Stacks = append(nodes[i].Stacks, dump(p.PID, changed, frames))
		}
	}
}

func TestStill(t *testing.T) {
	const everywhere = "w1, w2, w3 and 1 more: "
	const same = everywhere + "all ranks have met and wait in the same way, and nothing moves"
	for _, tt := range []struct {
		name string
		does func(nodes []Node)
		want string // what follows "8 of 8 ranks have joined at 10.0.0.1:29500; "
		code int
	}{
		{"every rank waits", func([]Node) {}, same, 2},
		{"the ranks exchange data", func(n []Node) { of(n, 2)[0].Watch.Flows[0].Bytes = 6 << 20 }, "the job moves: its ranks exchanged 3.0 MiB within 2 s", 0},
		{"the ranks use NCCL, whose RAS threads greet each other", func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.NCCL, p.Watch.Flows[0].Bytes, p.Watch.CPU = true, 9000, 1 }, 1, 2, 3, 4)
		}, everywhere + "all ranks have met and compute or wait for NCCL; preflight cannot see whether NCCL moves data", 2},
		{"a rank waits for data for a moment, as in any training", func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.NCCL, p.State, p.WaitsIn, p.Watch.CPU = true, "R", "", 1 }, 1, 2, 3, 4)
			of(n, 3)[1].WaitsIn, of(n, 3)[1].Watch.Workers = "poll_schedule_timeout.constprop.0", []facts.JobWorker{{PID: 900}}
		}, everywhere + "all ranks have met and compute or wait for NCCL; preflight cannot see whether NCCL moves data", 2},
		{"the ranks use the store", func(n []Node) { of(n, 2)[0].Watch.Flows = nil }, same, 2},
		{"NCCL's counts grow", func(n []Node) {
			yes := true
			n[0].Jobs.NCCL = &facts.RAS{Moved: &yes}
		}, "the job moves: NCCL launched collectives within 2 s", 0},
		{"Python moves on everywhere", func(n []Node) { stacks(n, reducing, loading, true) }, "the job moves: the Python code of 8 of its ranks moved on within a second", 0},
		{"the ranks compute", func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.State, p.WaitsIn, p.Watch.CPU = "R", "", 1 }, 1, 2, 3, 4)
		}, everywhere + "all ranks have met and compute, without exchanging data within the last seconds", 2},
		{"a rank sleeps", func(n []Node) { of(n, 3)[1].WaitsIn = "hrtimer_nanosleep" }, "w3: rank 5 sleeps in its own code, and the others wait for it", 1},
		{"a rank sleeps while the others wait for NCCL with all their CPU", func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.NCCL, p.State, p.WaitsIn, p.Watch.CPU = true, "R", "", 1 }, 1, 2, 3, 4)
			of(n, 3)[1].WaitsIn, of(n, 3)[1].Watch.CPU = "hrtimer_nanosleep", 0
		}, "w3: rank 5 sleeps in its own code, and the others wait for it", 1},
		{"a rank is deaf while the others wait for NCCL with all their CPU", func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.NCCL, p.State, p.WaitsIn, p.Watch.CPU = true, "R", "", 1 }, 1, 2, 3, 4)
			of(n, 3)[1].WaitsIn, of(n, 3)[1].Watch.CPU = "futex_do_wait", 0
		}, "w3: rank 5 is unlike the others: waits in futex_do_wait", 2},
		{"all ranks sleep, as in torch's blocking mode", func(n []Node) { each(n, in("hrtimer_nanosleep"), 1, 2, 3, 4) },
			same, 2},
		{"a rank reads its input in torch's blocking mode", func(n []Node) {
			each(n, in("hrtimer_nanosleep"), 1, 2, 3, 4)
			of(n, 3)[1].WaitsIn, of(n, 3)[1].Reads = "anon_pipe_read", "standard input"
		}, "w3: rank 5 waits for input, as in breakpoint() or input(), and the others wait for it", 1},
		{"a rank computes", func(n []Node) { of(n, 3)[1].State, of(n, 3)[1].WaitsIn, of(n, 3)[1].Watch.CPU = "R", "", 1 },
			"w3: rank 5 computes and exchanges no data, and the others wait for it", 2},
		{"a rank waits for a lock", func(n []Node) { of(n, 3)[1].WaitsIn, of(n, 3)[1].Reads = "locks_lock_inode_wait", "/data/lock" },
			"w3: rank 5 waits for a file lock, and the others wait for it", 1},
		{"a rank waits for its workers", func(n []Node) {
			of(n, 3)[1].WaitsIn = "poll_schedule_timeout.constprop.0"
			of(n, 3)[1].Watch.Workers = []facts.JobWorker{{PID: 900, State: "D", WaitsIn: "rpc_wait_bit_killable"}}
		}, "w3: rank 5 waits for its DataLoader or other workers, and the others wait for it", 1},
		{"a rank downloads", func(n []Node) {
			of(n, 1)[0].Watch.Flows = []facts.JobFlow{{Remote: "203.0.113.9", RemotePort: 443, Bytes: 20 << 20}}
		}, "w1: rank 0 transfers data with 203.0.113.9:443 at 10 MiB/s, and the others wait for it", 2},
		{"a rank waits for a server outside", func(n []Node) { of(n, 1)[0].WaitsIn, of(n, 1)[0].Reads = "wait_woken", "203.0.113.9:443" },
			"w1: rank 0 waits for data from 203.0.113.9:443, and the others wait for it", 1},
		{"a rank saves a checkpoint", func(n []Node) { *of(n, 1)[0].Watch.Files = 200 << 20 }, "w1: rank 0 reads or writes files at 100 MiB/s, and the others wait for it", 2},
		{"a rank waits for a disk", func(n []Node) { of(n, 1)[0].State, of(n, 1)[0].WaitsIn = "D", "io_schedule" },
			"w1: rank 0 waits for a disk or a driver, and the others wait for it", 2},
		{"a rank waits for a file server", func(n []Node) { of(n, 1)[0].State, of(n, 1)[0].WaitsIn = "D", "rpc_wait_bit_killable" },
			"w1: rank 0: waiting in rpc_wait_bit_killable for a file server that does not answer; signals do not interrupt it", 1},
		{"a rank reads from a file server", func(n []Node) {
			of(n, 1)[0].State, of(n, 1)[0].WaitsIn, *of(n, 1)[0].Watch.Files = "D", "rpc_wait_bit_killable", 200<<20
		}, "w1: rank 0 reads or writes files at 100 MiB/s, and the others wait for it", 2},
		{"a rank sent nothing when the others did", func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Watch.Flows[0].Sent = 1000 + float64(*p.Rank)/20 }, 1, 2, 3, 4)
			of(n, 2)[1].Watch.Flows[0].Sent = 990
		}, "w2: rank 3 sent its last data before all others, and the others wait for it", 2},
		{"two ranks sent nothing when the others did", func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Watch.Flows[0].Sent = 1000 }, 1, 2, 3, 4)
			each(n, func(p *facts.JobProcess) { p.Watch.Flows[0].Sent = 990 }, 2)
		}, same, 2},
		{"packets are lost", func(n []Node) { of(n, 2)[0].Watch.Flows[0].Unsent = 90 << 10 },
			"w2: rank 2 has sent data to 10.0.0.3 that does not arrive: packets are lost on the way", 1},
		{"NCCL gets no answer of a rank", func(n []Node) {
			n[0].Jobs.NCCL = &facts.RAS{Silent: []facts.RASRank{{Host: "10.0.0.3", PID: 102}}}
		}, "w3: rank 5 does not answer NCCL's RAS service: the process is stopped or hangs in the driver, and the others wait for it", 1},
		{"NCCL knows which rank is behind", func(n []Node) {
			no := false
			n[0].Jobs.NCCL = &facts.RAS{Moved: &no, Behind: []facts.RASRank{{Host: "10.0.0.3", PID: 102, Collectives: "AllReduce 41 of 42"}}}
			n[1].Jobs.NCCL = n[0].Jobs.NCCL
		}, "w3: rank 5 has launched fewer NCCL collectives, and the others wait for it", 1},
		{"stacks of one node are elsewhere", func(n []Node) { stacks(n, reducing, loading, false) }, "w4: ranks 6, 7 are at train.py:17, and the others wait for them", 1},
		{"stacks are in different collectives", func(n []Node) { stacks(n, reducing, broadcasting, false) },
			"w4: ranks 6, 7 are in another collective than the others", 1},
		{"half of the stacks are in another collective", func(n []Node) {
			stacks(n, reducing, broadcasting, false)
			for i := range n[2].Stacks {
				n[2].Stacks[i].Lines = n[3].Stacks[i].Lines
			}
		}, everywhere + "not all ranks are in the same collective", 1},
		{"stacks are the same", func(n []Node) { stacks(n, reducing, reducing, false) }, everywhere + "all ranks have met and wait at the same line, and nothing moves", 2},
		{"a rank of another user", func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Unread, p.WaitsIn, p.Watch.Files = "permission denied", "", nil }, 1, 2, 3, 4)
		}, same, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := still()
			tt.does(nodes)
			report := Report{Nodes: nodes}
			Judge(&report, "", 0)
			if want := "8 of 8 ranks have joined at 10.0.0.1:29500; " + tt.want; report.Answer != want || report.ExitCode != tt.code {
				t.Errorf("exit code %d, want %d; answer\n%s\nwant\n%s", report.ExitCode, tt.code, report.Answer, want)
			}
			for _, f := range report.Findings {
				if f.Fix == nil && f.Notes == nil {
					t.Errorf("no way out: %+v", f)
				}
			}
			if len(report.Named) != 8 && tt.name != "a rank waits for a file server" {
				t.Errorf("%d ranks are named, want all", len(report.Named))
			}
		})
	}
}

// TestLaunchersOnly checks that launchers that have met are no job that moves.
func TestLaunchersOnly(t *testing.T) {
	nodes := cluster()
	elasticAgents(nodes)
	report := Report{Nodes: nodes}
	Judge(&report, "", 0)
	if want := "4 of 4 launchers have joined at w1:29400; w1, w2, w3 and 1 more: all launchers have met, but no rank runs"; report.Answer != want || report.ExitCode != 2 {
		t.Errorf("exit code %d, answer %q, want %q", report.ExitCode, report.Answer, want)
	}
}

// TestStillBesideALauncher checks that a launcher without ranks does not keep a complete job from being
// judged.
func TestStillBesideALauncher(t *testing.T) {
	nodes := still()
	spare := nodes[3].Jobs.Processes[0]
	spare.PID = 300
	nodes[3].Jobs.Processes = append(nodes[3].Jobs.Processes, spare)
	report := Report{Nodes: nodes}
	Judge(&report, "", 0)
	if report.ExitCode == 0 {
		t.Errorf("passed: %s", report.Answer)
	}
}

// TestStillWithoutAddress checks that a job whose script chooses the master address is treated as met
// if its ranks are connected.
func TestStillWithoutAddress(t *testing.T) {
	nodes := still()
	each(nodes, func(p *facts.JobProcess) { p.Launcher, p.Address, p.Port, p.Sockets = 0, "", 0, nil }, 1, 2, 3, 4)
	for i := range nodes {
		nodes[i].Jobs.Processes = of(nodes, i+1)
	}
	of(nodes, 2)[0].WaitsIn = "hrtimer_nanosleep"
	report := Report{Nodes: nodes}
	Judge(&report, "", 0)
	if want := "a job of 8 ranks; w2: rank 3 sleeps in its own code, and the others wait for it"; report.Answer != want || report.ExitCode != 1 {
		t.Errorf("exit code %d, answer %q, want %q", report.ExitCode, report.Answer, want)
	}
}

// TestLauncherWords checks that fixes use the options of the job's own launcher.
func TestLauncherWords(t *testing.T) {
	for launcher, want := range map[string]string{
		"deepspeed.launcher.launch": "deepspeed --master_addr=10.0.0.1 --master_port=29500 …",
		"torchrun":                  "torchrun --master_addr=10.0.0.1 --master_port=29500 …",
		"torchrun c10d":             "torchrun --rdzv_endpoint=10.0.0.1:29500 …",
		"accelerate":                "accelerate launch --main_process_ip=10.0.0.1 --main_process_port=29500 …",
		"orted":                     "mpirun -x MASTER_ADDR=10.0.0.1 -x MASTER_PORT=29500 …",
		"hydra_pmi_proxy":           "mpiexec -genv MASTER_ADDR 10.0.0.1 -genv MASTER_PORT 29500 …",
		"slurmstepd":                "export MASTER_ADDR=10.0.0.1 MASTER_PORT=29500",
		"":                          "export MASTER_ADDR=10.0.0.1 MASTER_PORT=29500",
	} {
		nodes := cluster()
		program, backend, _ := strings.Cut(launcher, " ")
		for i := range nodes {
			p := &nodes[i].Jobs.Processes[0]
			if p.Program, p.Backend = program, backend; program == "" {
				each(nodes, func(p *facts.JobProcess) { p.Launcher = 0 }, i+1)
				nodes[i].Jobs.Processes = of(nodes, i+1)
			}
		}
		for i := range nodes[2].Jobs.Processes {
			nodes[2].Jobs.Processes[i].Address = "172.17.0.1"
		}
		report := Report{Nodes: nodes}
		Judge(&report, "", 0)
		if !slices.ContainsFunc(report.Findings, func(f checks.Finding) bool { return strings.HasPrefix(strings.Join(f.Fix, "\n"), want) }) {
			t.Errorf("%s: %+v, want %q", launcher, report.Findings, want)
		}
	}
}
