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

// jobsTime is what a node gets to list the processes of launches: one with many thousands of
// processes takes a second.
const jobsTime = 10 * time.Second

// stacksTime is what a node gets to find where the Python of its ranks is: eight of them, two at
// a time.
const stacksTime = 20 * time.Second

// JobsOn is one node and what runs there of launches.
type JobsOn struct {
	facts.Node
	Jobs *facts.Jobs // nil when the node could not look
	Lost string      // why a node that was reached could not
}

// ListJobs has every node say, all at once, which processes of launches run there, and who is
// at a port of it, 0 for none. Nobody there is asked anything or signalled.
func ListJobs(ctx context.Context, job Job, port int) []JobsOn {
	nodes, stood := hostsys.Anew(ctx, func(ctx context.Context) []JobsOn { return job.listJobs(ctx, port) })
	if len(stood) > 1 {
		for i := range nodes {
			nodes[i].Jobs, nodes[i].Lost = nil, stood[1].Error()
		}
	}
	return nodes
}

// ReadStacks has nodes say where the Python of some of their processes is, all nodes at once: of
// those that are there by their names. What comes back is by name too; nothing of a node that is
// lost meanwhile.
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

func (job Job) listJobs(ctx context.Context, port int) []JobsOn {
	nodes := make([]JobsOn, len(job.Prediction.Hosts))
	job.askAll(ctx, Looking, jobsTime, func(i int) *facts.Node { return &nodes[i].Node }, func(ctx context.Context, at *remote.Agent, i int) (err error) {
		nodes[i].Jobs, nodes[i].Lost, err = listJobs(ctx, at, port)
		return err
	})
	return nodes
}

// listJobs has an agent list them, or says why it does not. The error is of an agent that is lost.
func listJobs(ctx context.Context, at *remote.Agent, port int) (seen *facts.Jobs, lost string, err error) {
	listed, err := agent.ListJobs.Ask(ctx, at, agent.Listing{Port: port})
	if err != nil {
		return nil, lostReason(err), err
	}
	return listed.Jobs, listed.Problem, nil
}
