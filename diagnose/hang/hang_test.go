// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"preflight/facts"
)

// cluster returns four nodes with a launcher and two ranks each. All ranks have joined at w1.
func cluster() (nodes []Node) {
	const port = 29500
	for i := range 4 {
		name, own := fmt.Sprintf("w%d", i+1), fmt.Sprintf("10.0.0.%d", i+1)
		jobs := &facts.Jobs{
			Addresses: map[string]string{own: "eth0", "172.17.0.1": "docker0", "127.0.0.1": "lo"},
			Processes: []facts.JobProcess{{PID: 100, Kind: facts.JobLauncher, Program: "deepspeed.launcher.launch", Script: "train.py", State: "S", Age: 90, User: "ann",
				Meeting: facts.Meeting{Address: "10.0.0.1", Port: port, NodeRank: &i}}},
			Ports: []facts.JobPort{{Port: port}},
		}
		for local := range 2 {
			rank := 2*i + local
			jobs.Processes = append(jobs.Processes, facts.JobProcess{
				PID: 101 + local, Parent: 100, Launcher: 100, Kind: facts.JobRank, Script: "train.py", State: "S", Age: 80, User: "ann", WaitsIn: "do_poll",
				Meeting: facts.Meeting{Rank: &rank, LocalRank: &local, World: 8, Local: 2, Address: "10.0.0.1", Port: port},
				Sockets: []facts.JobSocket{{State: facts.SocketEstablished, Address: own, Port: 40000 + rank, Interface: "eth0", Remote: "10.0.0.1", RemotePort: port}},
			})
		}
		node := Node{Node: facts.Node{Name: name, Address: own, Reached: true}, Jobs: jobs}
		nodes = append(nodes, node)
	}
	nodes[0].Jobs.Ports[0].Listening, nodes[0].Jobs.Ports[0].Holder = true, 101
	return nodes
}

// of returns the ranks of a node. The first node is 1.
func of(nodes []Node, node int) []facts.JobProcess { return nodes[node-1].Jobs.Processes[1:] }

// each applies do to the ranks of the nodes with the given numbers.
func each(nodes []Node, do func(*facts.JobProcess), numbers ...int) {
	for _, n := range numbers {
		for i := range of(nodes, n) {
			do(&of(nodes, n)[i])
		}
	}
}

func silent(p *facts.JobProcess) { p.Sockets = nil }

func calling(to string) func(*facts.JobProcess) {
	return func(p *facts.JobProcess) {
		p.Sockets[0].State, p.Sockets[0].Remote = facts.SocketCalling, to
	}
}

// baton returns a change that makes a rank sleep while it waits for a lock.
func baton(lock facts.BuildLock) func(*facts.JobProcess) {
	return func(p *facts.JobProcess) {
		lock.Path = "/home/ann/.cache/torch_extensions/py311_cu124/fused_adam/lock"
		p.WaitsIn, p.Locks = "hrtimer_nanosleep", []facts.BuildLock{lock}
	}
}

// elasticAgents turns the launchers into torchrun agents that wait for each other.
func elasticAgents(nodes []Node) {
	for i := range nodes {
		at := nodes[i].Jobs
		at.Processes = at.Processes[:1]
		p := &at.Processes[0]
		p.Program, p.Meeting = "torchrun", facts.Meeting{Address: "w1", Port: 29400, RunID: "run7", Nodes: "4", Backend: "c10d"}
		p.Sockets = []facts.JobSocket{{State: facts.SocketEstablished, Remote: "10.0.0.1", RemotePort: 29400}}
		at.Ports = []facts.JobPort{{Port: 29400, Listening: i == 0}}
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name string
		does func(nodes []Node)
		want string // the expected answer
		code int
	}{
		{name: "all have met", does: func([]Node) {}, want: "8 of 8 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "a node has no process", does: func(n []Node) { n[2].Jobs.Processes = nil }, code: 1,
			want: "6 of 8 ranks have joined at 10.0.0.1:29500; w3: no process of this job runs there: its launcher was not started or has ended"},
		{name: "a launcher without ranks", does: func(n []Node) { n[2].Jobs.Processes = n[2].Jobs.Processes[:1] }, code: 1,
			want: "6 of 8 ranks have joined at 10.0.0.1:29500; w3: its launcher (deepspeed.launcher.launch, started 90 s ago) has no rank"},
		{name: "a rank is gone", does: func(n []Node) { n[2].Jobs.Processes = n[2].Jobs.Processes[:2] }, code: 1,
			want: "7 of 8 ranks have joined at 10.0.0.1:29500; w3: only 1 of its 2 ranks run: the others have ended"},
		{name: "a rank has ended and is a zombie", does: func(n []Node) {
			one := 1
			of(n, 3)[1].State, of(n, 3)[1].Exit, of(n, 3)[1].Sockets = "Z", &one, nil
		}, code: 1, want: "7 of 8 ranks have joined at 10.0.0.1:29500; w3: rank 5: ended with 1, but its launcher has not noticed"},
		{name: "a rank is stopped", does: func(n []Node) { of(n, 4)[0].State = "T" }, code: 1,
			want: "8 of 8 ranks have joined at 10.0.0.1:29500; w4: rank 6: stopped by a signal, as from Ctrl-Z or scontrol suspend"},
		{name: "a rank is killed", does: func(n []Node) {
			killed := 128 + 9
			of(n, 3)[1].State, of(n, 3)[1].Exit, of(n, 3)[1].Sockets = "Z", &killed, nil
		}, code: 1, want: "7 of 8 ranks have joined at 10.0.0.1:29500; w3: rank 5: ended by signal 9, but its launcher has not noticed"},
		{name: "a rank is killed for want of memory", does: func(n []Node) {
			killed := 128 + 9
			of(n, 3)[1].State, of(n, 3)[1].Exit, of(n, 3)[1].Sockets = "Z", &killed, nil
			n[2].Jobs.Processes[0].OOMKills = 1
		}, code: 1, want: "7 of 8 ranks have joined at 10.0.0.1:29500; w3: rank 5: ended by signal 9, but its launcher has not noticed; the kernel has killed a process of their cgroup because memory ran out"},
		{name: "a rank was killed for want of memory and is gone", does: func(n []Node) {
			n[2].Jobs.Processes = n[2].Jobs.Processes[:2]
			of(n, 3)[0].OOMKills = 2
		}, code: 1, want: "7 of 8 ranks have joined at 10.0.0.1:29500; w3: only 1 of its 2 ranks run: the others have ended; the kernel has killed 2 processes of their cgroup because memory ran out"},
		{name: "another process of a cgroup was killed, and all ranks run", does: func(n []Node) { n[2].Jobs.Processes[0].OOMKills = 1 },
			want: "8 of 8 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "containers are paused", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.State, p.WaitsIn = "D", "__refrigerator" }, 4)
		}, code: 1, want: "8 of 8 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: frozen with its cgroup: its container is paused, or its step suspended"},
		{name: "a terminal that was stopped by Ctrl-S", does: func(n []Node) { of(n, 1)[0].WaitsIn = "n_tty_write" }, code: 1,
			want: "8 of 8 ranks have joined at 10.0.0.1:29500; w1: rank 0: blocked while writing its output: the terminal, program or disk that takes it is stopped, hung or full"},
		{name: "an earlier rank 0 holds the port", does: func(n []Node) {
			old := of(n, 1)[0]
			old.PID, old.Launcher, old.Parent, old.Age = 50, 0, 1, 7200
			old.Sockets = []facts.JobSocket{{State: facts.SocketListening, Address: "0.0.0.0", Port: 29500}}
			n[0].Jobs.Processes = []facts.JobProcess{old}
			n[0].Jobs.Ports[0].Holder = 50
		}, code: 1, want: "6 of 8 ranks have joined at 10.0.0.1:29500; w1: no process of this job runs there: its launcher was not started or has ended; " +
			"w1: rank 0 of an earlier job: running for 2 h without a launcher, still holding ports, GPUs and places in the rendezvous"},
		{name: "one of three tasks is missing somewhere", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Local, p.World = 0, 9 }, 1, 2, 3, 4)
		}, code: 1, want: "8 of 9 ranks have joined at 10.0.0.1:29500; no node runs rank 8, although every node runs some ranks"},
		{name: "containers with networks of their own", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Apart = true }, 1, 2, 3, 4)
			each(n, func(p *facts.JobProcess) { silent(p); p.Age = 20 }, 2, 3, 4)
		}, code: 1, want: "2 of 8 ranks have joined at 10.0.0.1:29500; w1: rank 0 listens in its own network, as in a container without the host's network: no rank of another node has reached it"},
		{name: "containers of an overlay network that have met", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Apart = true }, 1, 2, 3, 4)
		}, want: "8 of 8 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "a script that chooses the meeting", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Launcher, p.Address, p.Port = 0, "", 0 }, 1, 2, 3, 4)
			for i := range n {
				n[i].Jobs.Processes = of(n, i+1)
			}
		}, code: 2, want: "a job of 8 ranks; no variable of the ranks holds the master address: their script chooses it"},
		{name: "ranks wait for a file server", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) {
				p.State, p.WaitsIn, p.Busy, p.Sockets = "D", "rpc_wait_bit_killable", true, nil
			}, 4)
		}, code: 1, want: "6 of 8 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: waiting in rpc_wait_bit_killable for a file server that does not answer; signals do not interrupt it"},
		{name: "another address", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Address = "172.17.0.1"; silent(p) }, 3)
		}, code: 1, want: "6 of 8 ranks have joined at 10.0.0.1:29500; w3: its 2 ranks were given the master address 172.17.0.1 instead of 10.0.0.1"},
		{name: "another port", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Port = 29501; silent(p) }, 3)
		}, code: 1, want: "6 of 8 ranks have joined at 10.0.0.1:29500; w3: its 2 ranks were given the master port 29501 instead of 29500"},
		{name: "another size", does: func(n []Node) { each(n, func(p *facts.JobProcess) { p.World = 6 }, 3) }, code: 1,
			want: "8 of 8 ranks have joined at 10.0.0.1:29500; w3: its 2 ranks were given the world size 6 instead of 8"},
		{name: "more nodes than the job takes", does: func(n []Node) { each(n, func(p *facts.JobProcess) { p.World = 6 }, 1, 2, 3, 4) }, code: 1,
			want: "6 of 6 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: the job has only 6 ranks, numbered from 0"},
		{name: "a node of more than the job takes", does: func(n []Node) { each(n, func(p *facts.JobProcess) { p.World = 6 }, 1, 2, 3) }, code: 1,
			want: "6 of 6 ranks have joined at 10.0.0.1:29500; w4: its 2 ranks were given the world size 8 instead of 6"},
		{name: "an address that every node has", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Address = "172.17.0.1" }, 1, 2, 3, 4)
			each(n, silent, 2, 3, 4)
		}, code: 1, want: "2 of 8 ranks have joined at 172.17.0.1:29500; w2, w3, w4: the master address 172.17.0.1 is an address of this node itself (docker0), but rank 0 runs on w1"},
		{name: "a firewall", does: func(n []Node) { each(n, calling("10.0.0.1"), 2) }, code: 1,
			want: "6 of 8 ranks have joined at 10.0.0.1:29500; w2: ranks 2, 3: no answer from 10.0.0.1:29500 over eth0: packets to it are dropped, or no machine has this address"},
		{name: "the store has hung up", does: func(n []Node) { of(n, 2)[0].Sockets[0].State = facts.SocketHungUp }, code: 1,
			want: "7 of 8 ranks have joined at 10.0.0.1:29500; w2: rank 2: the store closed the connection: rank 0 has ended or was restarted"},
		{name: "patience: an op is compiled", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { silent(p); p.Compiles, p.CompilesFor, p.Busy = "shm_comm", 80, true }, 4)
		}, want: "6 of 8 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: compiling shm_comm for 80 s"},
		{name: "a lock that nobody holds", does: func(n []Node) { each(n, baton(facts.BuildLock{Made: 7, Age: 7200}), 4) }, code: 1,
			want: "8 of 8 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: seems to wait for the build lock of fused_adam: the process that built this op has ended and left its lock"},
		{name: "a lock that ranks tell of one after the other", does: func(n []Node) {
			each(n, baton(facts.BuildLock{Made: 7, Age: 7200}), 4)
			n[3].Jobs.Processes[len(n[3].Jobs.Processes)-1].Locks[0].Age += 3600
		}, code: 1, want: "8 of 8 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: seems to wait for the build lock of fused_adam: the process that built this op has ended and left its lock"},
		{name: "patience: a lock that a rank of the node holds", does: func(n []Node) { each(n, baton(facts.BuildLock{Made: 7, Holder: 102}), 4) },
			want: "8 of 8 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "patience: a lock in a shared home that a rank of another node holds", does: func(n []Node) {
			each(n, baton(facts.BuildLock{Made: 7}), 4)
			each(n, baton(facts.BuildLock{Made: 7, Holder: 101}), 3)
		}, want: "8 of 8 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "a lock of the same name on another node is held", does: func(n []Node) {
			each(n, baton(facts.BuildLock{Made: 7}), 4)
			each(n, baton(facts.BuildLock{Made: 8, Holder: 101}), 3)
		}, code: 1, want: "8 of 8 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: seems to wait for the build lock of fused_adam: the process that built this op has ended and left its lock"},
		{name: "a lock that nobody waits for", does: func(n []Node) {
			each(n, baton(facts.BuildLock{Made: 7}), 4)
			each(n, func(p *facts.JobProcess) { p.WaitsIn = "do_poll" }, 4)
		}, want: "8 of 8 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "patience: importing", does: func(n []Node) { each(n, func(p *facts.JobProcess) { silent(p); p.Busy = true }, 4) },
			want: "6 of 8 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: computing or reading since its start 80 s ago, not connected yet"},
		{name: "patience: just started", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { silent(p); p.Age = 5 - float64(*p.LocalRank)/100 }, 4)
		},
			want: "6 of 8 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: started 5 s ago, not connected yet"},
		{name: "asleep without a call", does: func(n []Node) { each(n, silent, 4) }, code: 1,
			want: "6 of 8 ranks have joined at 10.0.0.1:29500; w4: ranks 6, 7: not connected to 10.0.0.1:29500 since its start 80 s ago, or every connection was refused; it sleeps in do_poll"},
		{name: "rank 0 does not serve", does: func(n []Node) {
			each(n, silent, 1, 2, 3, 4)
			n[0].Jobs.Ports[0].Listening = false
		}, code: 1, want: "0 of 8 ranks have joined at 10.0.0.1:29500; w1: rank 0: has not opened the store on port 29500 since its start 80 s ago; it sleeps in do_poll"},
		{name: "ranks of an earlier job", does: func(n []Node) {
			old := of(n, 2)[0]
			old.PID, old.Launcher, old.Parent, old.Age = 50, 0, 1, 7200
			n[1].Jobs.Processes = append(n[1].Jobs.Processes, old)
		}, code: 1, want: "8 of 8 ranks have joined at 10.0.0.1:29500; w2: rank 2 of an earlier job: running for 2 h without a launcher, still holding ports, GPUs and places in the rendezvous"},
		{name: "two jobs at one port", does: func(n []Node) {
			launcher, rank := n[1].Jobs.Processes[0], of(n, 2)[0]
			launcher.PID, rank.PID, rank.Launcher = 200, 201, 200
			n[1].Jobs.Processes = append(n[1].Jobs.Processes, launcher, rank)
		}, code: 1, want: "8 of 8 ranks have joined at 10.0.0.1:29500; w2: two jobs use port 29500 for their rendezvous: each treats the other's ranks as its own"},
		{name: "another user's job", does: func(n []Node) {
			for i := range 2 {
				for _, p := range n[i].Jobs.Processes[:3] {
					p.PID, p.User, p.Script, p.Port = p.PID+200, "bob", "tune.py", 29511
					if p.Launcher != 0 {
						p.Launcher, p.Parent = 300, 300
					}
					n[i].Jobs.Processes = append(n[i].Jobs.Processes, p)
				}
			}
		}, want: "8 of 8 ranks have joined at 10.0.0.1:29500; w1, w2: another user's job also runs there: bob's tune.py; all have joined, so the hang comes after the rendezvous"},
		{name: "another user's ranks without a launcher are no leftovers of ours", does: func(n []Node) {
			p := of(n, 2)[0]
			p.PID, p.Launcher, p.Parent, p.User, p.Port = 50, 0, 1, "bob", 29511
			n[1].Jobs.Processes = append(n[1].Jobs.Processes, p)
		}, want: "8 of 8 ranks have joined at 10.0.0.1:29500; w2: another user's job also runs there: bob's train.py; all have joined, so the hang comes after the rendezvous"},
		{name: "another user's rank 0 holds the port", does: func(n []Node) {
			p := of(n, 1)[0]
			p.PID, p.Launcher, p.Parent, p.User = 50, 0, 1, "bob"
			p.Sockets = []facts.JobSocket{{State: facts.SocketListening, Address: "0.0.0.0", Port: 29500}}
			n[0].Jobs.Processes = append(n[0].Jobs.Processes, p)
			n[2].Jobs.Processes = append(n[2].Jobs.Processes, p) // the process is on a node that no rank connects to
		}, code: 1, want: "8 of 8 ranks have joined at 10.0.0.1:29500; w1: rank 0 of another user's job (bob) listens on port 29500, the master port of this job"},
		{name: "another job at another port is another question", does: func(n []Node) {
			launcher, rank := n[1].Jobs.Processes[0], of(n, 2)[0]
			launcher.PID, rank.PID, rank.Launcher, rank.Port, launcher.Port, rank.World = 200, 201, 200, 29511, 29511, 1
			n[1].Jobs.Processes = append(n[1].Jobs.Processes, launcher, rank)
		}, want: "8 of 8 ranks have joined at 10.0.0.1:29500; w2: another job also runs there: use `preflight rendezvous 10.0.0.1:29511 -H hostfile` to examine it; all have joined, so the hang comes after the rendezvous"},
		{name: "one rank runs twice on its node, and another nowhere", does: func(n []Node) { *of(n, 2)[0].Rank = 3 }, code: 1,
			want: "7 of 8 ranks have joined at 10.0.0.1:29500; w2: two of its processes have the same rank: the store treats them as one"},
		{name: "an address that nobody has", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { calling("10.9.9.9")(p); p.Address = "10.9.9.9" }, 1, 2, 3, 4)
			for i := range n {
				n[i].Jobs.Processes[0].Address = "10.9.9.9"
			}
		}, code: 1, want: "0 of 8 ranks have joined at 10.9.9.9:29500; w1, w2, w3 and 1 more: none of these nodes has the master address 10.9.9.9"},
		{name: "localhost is each node's own", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Address = "localhost" }, 1, 2, 3, 4)
			each(n, silent, 2, 3, 4)
			for i := range n {
				n[i].Jobs.Processes[0].Address = "localhost"
			}
		}, code: 1, want: "2 of 8 ranks have joined at localhost:29500; w2, w3, w4: the master address localhost is an address of this node itself (lo), but rank 0 runs on w1"},
		{name: "rank 0's node by its name here and its address there", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.Address = "w1" }, 4)
			n[3].Jobs.Processes[0].Address = "w1"
		}, want: "8 of 8 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "one rank of a node was told another address", does: func(n []Node) { of(n, 3)[0].Address = "10.0.0.3" }, code: 1,
			want: "8 of 8 ranks have joined at 10.0.0.1:29500; w3: rank 4 was given the master address 10.0.0.3 instead of 10.0.0.1"},
		{name: "one rank of a node was told another port", does: func(n []Node) { of(n, 3)[1].Port, of(n, 3)[1].Sockets = 29501, nil }, code: 1,
			want: "7 of 8 ranks have joined at 10.0.0.1:29500; w3: rank 5 was given the master port 29501 instead of 29500"},
		{name: "a rank of the job as another user", does: func(n []Node) { of(n, 3)[1].User = "bob" },
			want: "8 of 8 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "a job of more nodes than were asked", does: func(n []Node) { each(n, func(p *facts.JobProcess) { p.World, p.Local = 16, 2 }, 1, 2, 3, 4) }, code: 2,
			want: "8 of 16 ranks have joined at 10.0.0.1:29500; these nodes run 8 of the job's 16 ranks: the job has more nodes"},
		{name: "all have met but those of one node", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { silent(p); p.Age = 20 }, 2)
		}, want: "6 of 8 ranks have joined at 10.0.0.1:29500; w2: ranks 2, 3: started 20 s ago, not connected yet, or every connection was refused (`preflight rendezvous 10.0.0.1:29500 -H hostfile` shows which)"},
		{name: "a node may not be looked into", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { silent(p); p.Unread = "permission denied"; p.Rank, p.World = nil, 0 }, 4)
		}, code: 2, want: "6 of 8 ranks have joined at 10.0.0.1:29500; w4: 2 of its ranks: preflight may not see what it waits for (permission denied): it runs as ann"},
		{name: "what may not be looked into is seen from the other end", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { silent(p); p.Unread = "permission denied"; p.Rank, p.World = nil, 0 }, 4)
			n[0].Jobs.Ports[0].Callers = []facts.JobCaller{{Address: "10.0.0.4", State: facts.SocketEstablished, Count: 2}}
		}, want: "8 of 8 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "a node is not reached", does: func(n []Node) {
			n[3].Jobs, n[3].SSH = nil, &facts.SSH{Message: "no route to host"}
		}, code: 2, want: "6 of 8 ranks have joined at 10.0.0.1:29500; w4: not reached: no route to host"},
		{name: "a job on three of the nodes", does: func(n []Node) {
			each(n, func(p *facts.JobProcess) { p.World = 6 }, 1, 2, 3)
			n[3].Jobs.Processes = nil
		}, want: "6 of 6 ranks have joined at 10.0.0.1:29500; all have joined, so the hang comes after the rendezvous"},
		{name: "there is no job", does: func(n []Node) {
			for i := range n {
				n[i].Jobs.Processes = nil
			}
		}, code: 2, want: "w1, w2, w3 and 1 more: no rank or launcher of a job is visible there"},
		{name: "torchrun waits for a node", does: func(n []Node) { elasticAgents(n); n[2].Jobs.Processes = nil }, code: 1,
			want: "3 of 4 launchers have joined at w1:29400; w3: no process of this job runs there: its launcher was not started or has ended"},
		{name: "torchrun without node ranks", does: func(n []Node) {
			elasticAgents(n)
			none := 0
			for i := range n {
				n[i].Jobs.Processes[0].Backend, n[i].Jobs.Processes[0].NodeRank = "", &none
			}
		}, code: 1, want: "4 of 4 launchers have joined at w1:29400; w1, w2, w3 and 1 more: each was given node rank 0"},
		{name: "torchrun with another run ID", does: func(n []Node) { elasticAgents(n); n[2].Jobs.Processes[0].RunID = "run8" }, code: 1,
			want: "4 of 4 launchers have joined at w1:29400; w3: torchrun was given the run ID run8 instead of run7"},
		{name: "no launcher takes itself for the host", does: func(n []Node) {
			elasticAgents(n)
			for i := range n {
				n[i].Jobs.Processes[0].Sockets, n[i].Jobs.Ports[0].Listening = nil, false
			}
		}, code: 1, want: "0 of 4 launchers have joined at w1:29400; w1, w2, w3 and 1 more: launchers wait for the rendezvous at w1:29400, which no node serves: no node considers itself w1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes := cluster()
			tt.does(nodes)
			report := Report{Nodes: nodes}
			Judge(&report, "", 0)
			if diff := cmp.Diff(tt.want, report.Answer); diff != "" || report.ExitCode != tt.code {
				t.Errorf("exit code %d, want %d; answer (-want +got)\n%s", report.ExitCode, tt.code, diff)
			}
			for _, f := range report.Findings {
				if f.Check != "hang" || f.Fix == nil && f.Notes == nil && !slices.Contains(f.Nodes, "w4") {
					t.Errorf("no way out: %+v", f)
				}
			}
		})
	}
}

// TestPortOfTheJob checks that Judge reports on the job with the given port if there are two jobs.
func TestPortOfTheJob(t *testing.T) {
	nodes := cluster()
	small := cluster()[1]
	for i := range small.Jobs.Processes {
		p := &small.Jobs.Processes[i]
		p.PID, p.Port = p.PID+100, 29511
		if p.Launcher != 0 {
			p.Launcher += 100
		}
	}
	nodes[1].Jobs.Processes = append(nodes[1].Jobs.Processes, small.Jobs.Processes...)
	for endpoint, want := range map[string]string{"": "10.0.0.1:29500", "w1:29511": "10.0.0.1:29511"} {
		report := Report{Nodes: nodes}
		if Judge(&report, endpoint, 0); report.Endpoint != want {
			t.Errorf("of %q: the job at %s was judged, want that at %s", endpoint, report.Endpoint, want)
		}
	}
}

// TestNamedMeeting checks that ranks without a port belong to the job at the given endpoint.
func TestNamedMeeting(t *testing.T) {
	nodes := cluster()
	each(nodes, func(p *facts.JobProcess) { p.Launcher, p.Address, p.Port = 0, "", 0 }, 1, 2, 3, 4)
	each(nodes, calling("10.0.0.1"), 2)
	for i := range nodes {
		nodes[i].Jobs.Processes = of(nodes, i+1)
	}
	report := Report{Nodes: nodes}
	Judge(&report, "w1:29500", 0)
	if want := "6 of 8 ranks have joined at w1:29500; w2: ranks 2, 3: no answer from 10.0.0.1:29500"; !strings.HasPrefix(report.Answer, want) {
		t.Errorf("got %q, want %q …", report.Answer, want)
	}
	if p := nodes[1].Jobs.Processes[0]; p.Port != 0 {
		t.Errorf("what was seen is changed: port %d", p.Port)
	}
}

// TestFixes checks that the fix commands contain the process IDs, ports and paths that the nodes
// reported.
func TestFixes(t *testing.T) {
	nodes := cluster()
	of(nodes, 4)[0].State = "T"
	report := Report{Nodes: nodes}
	Judge(&report, "", 2222)
	if got, want := strings.Join(report.Findings[0].Fix, "\n"), "ssh -n -p 2222 w4 kill -CONT 101"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
