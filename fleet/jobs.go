// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"time"

	"preflight/facts"
	"preflight/fleet/agent"
	"preflight/hostsys"
	"preflight/remote"
)

// jobsTime is what a node gets to list the processes of launches: one with many thousands of
// processes takes a second.
const jobsTime = 10 * time.Second

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
