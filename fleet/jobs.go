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
	for i, node := range job.empty().Nodes {
		nodes[i].Node = node
	}
	job.emit(Event{Phase: Reaching, Step: Began, Nodes: len(nodes)})
	opening := job.opening(Looking, len(nodes))
	atOnce, short := job.Remote.Fit(job.Prediction.HostNames(), false, AtOnce)
	eachNode(len(nodes), atOnce, func(i int) {
		if short != nil {
			nodes[i].SSH = sshFacts(&remote.Trace{}, short)
			return
		}
		job.listOn(ctx, port, opening, &nodes[i])
	})
	job.emit(Event{Phase: Looking, Step: Ended})
	return nodes
}

// listOn has one node list them. opening is called once it may.
func (job Job) listOn(ctx context.Context, port int, opening func(), node *JobsOn) {
	at, _ := job.reach(ctx, &node.Node, time.Now().Add(job.Timeout))
	if at == nil {
		return
	}
	defer at.Close()
	ctx, cancel := within(ctx, at, jobsTime)
	defer cancel()
	opening()
	job.emit(Event{Phase: Looking, Step: Began, Node: node.Name, Until: time.Now().Add(jobsTime + answerTime)})
	var err error
	node.Jobs, node.Lost, err = listJobs(ctx, at, port)
	job.ended(Looking, node.Name, err)
}

// listJobs has an agent list them, or says why it does not. The error is of an agent that is lost.
func listJobs(ctx context.Context, at *remote.Agent, port int) (seen *facts.Jobs, lost string, err error) {
	listed, err := agent.ListJobs.Ask(ctx, at, agent.Listing{Port: port})
	if err != nil {
		return nil, lostReason(err), err
	}
	return listed.Jobs, listed.Problem, nil
}
