// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"preflight/testhosts"
)

// hung lists waiting jobs, each with the expected answer. Rank 0 serves the store on w1.
var hung = []struct {
	name  string
	plant func(*testhosts.Cluster) (testhosts.Undo, error)
	all   jobPart         // what each node starts; by default, ranks of DeepSpeed that meet
	crews map[int]jobPart // the nodes that start something else, by node number
	more  []jobPart
	want  string
	code  int
}{
	{name: "all have met", code: 2, want: "8 of 8 ranks have joined at 10.77.1.1:29500; w1, w2, w3 and 1 more: all ranks have met and wait in the same way, and nothing moves"},
	{name: "no launcher", crews: map[int]jobPart{3: {}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w3: no process of this job runs there: its launcher was not started or has ended"},
	{name: "a launcher without ranks", crews: map[int]jobPart{3: {modes: "none none"}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w3: its launcher (deepspeed.launcher.launch, started A ago) has no rank"},
	{name: "a rank was not started", crews: map[int]jobPart{3: {modes: "meet none"}}, code: 1,
		want: "7 of 8 ranks have joined at 10.77.1.1:29500; w3: only 1 of its 2 ranks run: the others have ended"},
	{name: "a rank has ended", crews: map[int]jobPart{3: {modes: "meet exit"}}, code: 1,
		want: "7 of 8 ranks have joined at 10.77.1.1:29500; w3: a rank: ended with 127, as when a program is not found, but its launcher has not noticed"},
	{name: "a rank is stopped", crews: map[int]jobPart{4: {modes: "stop meet"}}, code: 1,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w4: rank 6: stopped by a signal, as from Ctrl-Z or scontrol suspend"},
	{name: "another address", crews: map[int]jobPart{3: {address: "10.77.1.4", modes: "call call"}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w3: its 2 ranks were given the master address 10.77.1.4 instead of 10.77.1.1"},
	{name: "another port", crews: map[int]jobPart{3: {port: 29501, modes: "call call"}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w3: its 2 ranks were given the master port 29501 instead of 29500"},
	{name: "a firewall", plant: on("w1", func(n *testhosts.Node) (testhosts.Undo, error) { return n.DropFrom(n.Peers()[1], "29500") }),
		crews: map[int]jobPart{3: {modes: "call call"}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w3: ranks 4, 5: no answer from 10.77.1.1:29500 over eth0: packets to it are dropped, or no machine has this address"},
	{name: "an op is compiled", crews: map[int]jobPart{4: {modes: "compile compile"}},
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w4: ranks 6, 7: compiling shm_comm for A"},
	{name: "nobody serves yet", crews: map[int]jobPart{1: {modes: "sleep call"}, 2: {modes: "call call"}, 3: {modes: "call call"}, 4: {modes: "call call"}},
		want: "0 of 8 ranks have joined at 10.77.1.1:29500; w1: rank 0: started A ago, not connected yet; w1, w2, w3 and 1 more: ranks 1, 2, 3, 4, 5, 6, 7: waiting for the store, which no process serves"},
	{name: "two jobs at one port", more: []jobPart{{node: 2, modes: "meet meet"}}, code: 1,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w2: two jobs use port 29500 for their rendezvous: each treats the other's ranks as its own"},
	{name: "an earlier job's ranks", more: []jobPart{{node: 2, modes: "leave leave"}}, code: 1,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w2: ranks 2, 3 of an earlier job: running for A without a launcher, still holding ports, GPUs and places in the rendezvous"},
	{name: "another user's job", more: []jobPart{{node: 2, port: 29511, modes: "call call", user: "65534"}}, code: 2,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w1, w2, w3 and 1 more: all ranks have met and wait in the same way, and nothing moves"},
	{name: "another user's job at the port", all: jobPart{modes: "sleep sleep"}, more: []jobPart{{node: 1, address: "127.0.0.1", modes: "meet call", user: "65534"}}, code: 1,
		want: "0 of 8 ranks have joined at 10.77.1.1:29500; w1: rank 0 of another user's job (nobody) listens on port 29500, the master port of this job"},
	{name: "another job at another port", more: []jobPart{{node: 2, port: 29511, modes: "call call"}}, code: 2,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w1, w2, w3 and 1 more: all ranks have met and wait in the same way, and nothing moves"},

	// These jobs differ in the settings that the ranks got.
	{name: "the loopback address on all nodes", all: jobPart{address: "127.0.0.1", modes: "call call"}, crews: map[int]jobPart{1: {address: "127.0.0.1", modes: "meet meet"}}, code: 1,
		want: "2 of 8 ranks have joined at 127.0.0.1:29500; w2, w3, w4: the master address 127.0.0.1 is an address of this node itself (lo), but rank 0 runs on w1"},
	{name: "the loopback address on one", crews: map[int]jobPart{2: {address: "127.0.0.1", modes: "call call"}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w2: its 2 ranks were given the master address 127.0.0.1 instead of 10.77.1.1"},
	{name: "another size", crews: map[int]jobPart{3: {world: 6, modes: "meet meet"}}, code: 1,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w3: its 2 ranks were given the world size 6 instead of 8"},
	{name: "more nodes than the job takes", all: jobPart{world: 6}, code: 1,
		want: "6 of 6 ranks have joined at 10.77.1.1:29500; w4: ranks 6, 7: the job has only 6 ranks, numbered from 0"},
	{name: "the master by its name", all: jobPart{address: "w1"}, crews: map[int]jobPart{4: {address: "w1", modes: "stop meet"}}, code: 1,
		want: "8 of 8 ranks have joined at w1:29500; w4: rank 6: stopped by a signal, as from Ctrl-Z or scontrol suspend"},
	{name: "IPv6", plant: addressIPv6, all: jobPart{address: "fd77::1"}, crews: map[int]jobPart{3: {}}, code: 1,
		want: "6 of 8 ranks have joined at [fd77::1]:29500; w3: no process of this job runs there: its launcher was not started or has ended"},

	// These jobs differ in what the ranks wait for.
	{name: "a rank is killed", crews: map[int]jobPart{3: {modes: "meet kill"}}, code: 1,
		want: "7 of 8 ranks have joined at 10.77.1.1:29500; w3: a rank: ended by signal 9, but its launcher has not noticed"},
	{name: "a rank in a debugger", crews: map[int]jobPart{2: {modes: "trace meet"}}, code: 1,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w2: rank 2: stopped by a debugger that traces it"},
	{name: "output that nobody reads", crews: map[int]jobPart{2: {modes: "meet write"}}, code: 1,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w2: rank 3: blocked while writing its output: the terminal, program or disk that takes it is stopped, hung or full"},
	{name: "an op is compiled after the meeting", crews: map[int]jobPart{4: {modes: "build meet"}}, code: 2,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w4: rank 6 compiles shm_comm, and the others wait for it"},
	{name: "a lock whose maker has ended", crews: map[int]jobPart{4: {modes: "wait wait"}}, code: 1,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w4: ranks 6, 7: seems to wait for the build lock of fused_adam: the process that built this op has ended and left its lock"},
	{name: "a rank imports", crews: map[int]jobPart{4: {modes: "meet import"}},
		want: "7 of 8 ranks have joined at 10.77.1.1:29500; w4: rank 7: computing or reading since its start A ago, not connected yet"},
	{name: "a container without its host's network", all: jobPart{modes: "call call"}, crews: map[int]jobPart{1: {modes: "apart call"}}, code: 1,
		want: "0 of 8 ranks have joined at 10.77.1.1:29500; w1: rank 0 listens in its own network, as in a container without the host's network: no rank of another node has reached it"},

	// In these jobs, something happens to launchers.
	{name: "a launcher has ended", crews: map[int]jobPart{3: {modes: "leave leave"}}, code: 1,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w3: the launcher of ranks 4, 5 has ended, but they still run: no launcher will stop them with the others"},
	{name: "a launcher is stopped", crews: map[int]jobPart{3: {lead: "stop", modes: "meet meet"}}, code: 1,
		want: "8 of 8 ranks have joined at 10.77.1.1:29500; w3: deepspeed.launcher.launch is stopped, as by Ctrl-Z: it passes on no output and does not notice when a rank ends"},
	{name: "two troubles", crews: map[int]jobPart{2: {modes: "stop stop"}, 3: {}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w3: no process of this job runs there: its launcher was not started or has ended; w2: ranks 2, 3: stopped by a signal, as from Ctrl-Z or scontrol suspend"},
	{name: "no job", crews: map[int]jobPart{1: {}, 2: {}, 3: {}, 4: {}}, code: 2, want: "w1, w2, w3 and 1 more: no rank or launcher of a job is visible there"},

	// These jobs use torchrun, whose launchers meet before they start ranks.
	{name: "torchrun waits for a node", all: gathering, crews: map[int]jobPart{1: gatheringHost, 3: {}}, code: 1,
		want: "3 of 4 launchers have joined at w1:29400; w3: no process of this job runs there: its launcher was not started or has ended"},
	{name: "torchrun with another run ID", all: gathering, crews: map[int]jobPart{1: gatheringHost, 3: gathering.as("--rdzv-id=run8", "")}, code: 1,
		want: "4 of 4 launchers have joined at w1:29400; w3: torchrun was given the run ID run8 instead of run7"},
	{name: "torchrun that nobody hosts", all: jobPart{by: "c10d", port: 29400, modes: "none"}, code: 1,
		want: "0 of 4 launchers have joined at w1:29400; w1, w2, w3 and 1 more: launchers wait for the rendezvous at w1:29400, which no node serves: no node considers itself w1"},
	{name: "torchrun on fewer nodes than it needs", crews: map[int]jobPart{1: gatheringHost.as("--nnodes=2:4", ""), 2: {}, 3: {}, 4: {}}, code: 1,
		want: "1 of 2 launchers have joined at w1:29400; w2, w3, w4: no process of this job runs there: its launcher was not started or has ended"},
	{name: "torchrun on more nodes than it takes", all: jobPart{by: "c10d", port: 29400, world: 4, told: "--nnodes=1:2"},
		crews: map[int]jobPart{3: {}, 4: gathering.as("--nnodes=1:2", "")}, code: 1,
		want: "4 of 4 ranks have joined at w1:29400; w4: torchrun waits for a free place: the job takes 2 nodes and already has them"},
	{name: "torchrun has started again", all: jobPart{by: "c10d", port: 29400}, code: 2,
		want: "8 of 8 ranks have joined at w1:29400; w1, w2, w3 and 1 more: all ranks have met and wait in the same way, and nothing moves"},
	{name: "torchrun without node ranks", all: jobPart{by: "torchrun", told: "--node-rank=0", lead: "gather", modes: "none"},
		crews: map[int]jobPart{1: {by: "torchrun", told: "--node-rank=0", lead: "host", modes: "none"}}, code: 1,
		want: "4 of 4 launchers have joined at 10.77.1.1:29500; w1, w2, w3 and 1 more: each was given node rank 0"},

	// These jobs use other launchers or none.
	{name: "accelerate", all: jobPart{by: "accelerate"}, crews: map[int]jobPart{2: {address: "10.77.1.3", modes: "call call"}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w2: its 2 ranks were given the master address 10.77.1.3 instead of 10.77.1.1"},
	{name: "mpirun", all: jobPart{by: "mpirun"}, crews: map[int]jobPart{3: {modes: "none none"}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w3: its launcher (orted, started A ago) has no rank"},
	{name: "srun", all: jobPart{by: "srun"}, crews: map[int]jobPart{3: {modes: "meet none"}}, code: 1,
		want: "7 of 8 ranks have joined at 10.77.1.1:29500; w3: fewer ranks run there than on other nodes (2): no node runs rank 5"},
	{name: "srun of a script that chooses the meeting", all: jobPart{by: "untold"}, code: 2,
		want: "a job of 8 ranks; w1, w2, w3 and 1 more: all ranks have met and wait in the same way, and nothing moves"},
	{name: "by hand", all: jobPart{by: "hand"}, crews: map[int]jobPart{3: {}}, code: 1,
		want: "6 of 8 ranks have joined at 10.77.1.1:29500; w3: no process of this job runs there: its launcher was not started or has ended"},
	{name: "by hand, and each node from 0", all: jobPart{by: "hand", first: -1}, code: 1,
		want: "2 of 8 ranks have joined at 10.77.1.1:29500; w1, w2, w3 and 1 more: each runs rank 0, 1: the nodes numbered their ranks separately, so the store treats them as the same ranks"},
}

// gathering is a node whose launcher waits for the other launchers. gatheringHost is a node whose
// launcher serves their rendezvous.
var (
	gathering     = jobPart{by: "c10d", port: 29400, lead: "gather", modes: "none"}
	gatheringHost = gathering.as("", "host")
)

// as returns the part with additional options and another launcher behaviour.
func (c jobPart) as(told, lead string) jobPart {
	c.told, c.lead = told, cmp.Or(lead, c.lead)
	return c
}

// addressIPv6 gives the nodes IPv6 addresses.
func addressIPv6(c *testhosts.Cluster) (testhosts.Undo, error) {
	each := func(what string) (err error) {
		for i, node := range c.Nodes {
			_, failed := node.Run(context.Background(), "/bin/sh", "-c", fmt.Sprintf(what, i+1))
			err = errors.Join(err, failed)
		}
		return err
	}
	return func() error { return each("ip -6 addr del fd77::%d/64 dev eth0") },
		each("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 && ip -6 addr add fd77::%d/64 dev eth0 nodad")
}
