// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"time"

	"preflight/agent"
	"preflight/drill"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/hostsys"
	"preflight/remote"
)

// jobsTime is how long a node may take to list the processes of launches. A node with many
// thousands of processes takes a second.
const jobsTime = 10 * time.Second

// watching is for how long a node watches what the ranks do, and watchTime is the time limit for
// this. NCCL's RAS service may need several seconds to answer twice if a rank does not answer it.
const (
	watching  = 2 * time.Second
	watchTime = jobsTime + 25*time.Second
)

// stacksTime is how long a node may take to read the Python stacks of its ranks. A node usually has
// eight ranks, and py-spy reads two at a time.
const stacksTime = 20 * time.Second

// JobsOn is one node with the launches that run on it.
type JobsOn struct {
	facts.Node
	Jobs *facts.Jobs // nil if the node could not list them
	Lost string      // why a node that was reached could not list them
}

// WatchJobs lists the processes of launches, on all nodes at the same time, and watches for two
// seconds what the ranks do. It signals none of these processes.
func WatchJobs(ctx context.Context, job Job) []JobsOn {
	nodes, stood := hostsys.RepeatAfterStandstill(ctx, job.watchJobs)
	if len(stood) > 1 {
		for i := range nodes {
			nodes[i].Jobs, nodes[i].Lost = nil, stood[1].Error()
		}
	}
	return nodes
}

// ReadStacks reads the Python stacks of the given processes, on all nodes at the same time. pids
// and the result are keyed by node name. The result has no entries for nodes that are lost.
func ReadStacks(ctx context.Context, job Job, pids map[string][]int) map[string][]facts.Stack {
	job.Prediction.Hosts = slices.DeleteFunc(slices.Clone(job.Prediction.Hosts), func(h hostfile.Host) bool { return pids[h.Name] == nil })
	nodes := make([]facts.Node, len(job.Prediction.Hosts))
	stacks := make([][]facts.Stack, len(nodes))
	job.askAll(ctx, Looking, stacksTime, func(i int) *facts.Node { return &nodes[i] }, func(ctx context.Context, at *remote.Agent, i int) (err error) {
		stacks[i], err = agent.Stacks.Ask(ctx, at, drill.Stacks{PIDs: pids[nodes[i].Name], Deadline: stacksTime})
		return err
	})
	by := map[string][]facts.Stack{}
	for i, node := range nodes {
		by[node.Name] = stacks[i]
	}
	return by
}

func (job Job) watchJobs(ctx context.Context) []JobsOn {
	nodes := make([]JobsOn, len(job.Prediction.Hosts))
	job.askAll(ctx, Looking, watchTime, func(i int) *facts.Node { return &nodes[i].Node }, func(ctx context.Context, at *remote.Agent, i int) (err error) {
		nodes[i].Jobs, nodes[i].Lost, err = listJobs(ctx, at, agent.Listing{Watch: watching})
		return err
	})
	return nodes
}

// listJobs makes an agent list the processes. lost says why the agent could not list them. err is
// set if the agent itself is lost.
func listJobs(ctx context.Context, at *remote.Agent, listing agent.Listing) (seen *facts.Jobs, lost string, err error) {
	listed, err := agent.ListJobs.Ask(ctx, at, listing)
	if err != nil {
		return nil, lostReason(err), err
	}
	return listed.Jobs, listed.Problem, nil
}
