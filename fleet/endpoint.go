// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"preflight/agent"
	"preflight/drill"
	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/remote"
)

// endpointTime is how long a machine may take to find out which process answers at an endpoint.
const endpointTime = 5 * time.Second

// Asked is one node with what it found at an endpoint.
type Asked struct {
	facts.Node
	Seen *facts.Endpoint // nil if the node could not try
	Lost string          // why a node that was reached could not try
	// Jobs holds the launches that run on the node. If it is nil, JobsLost holds the reason.
	Jobs     *facts.Jobs
	JobsLost string
}

// AskEndpoint reports which process answers at host:port, seen from this machine and from every
// node of the launch. All machines try at the same time; the launch may have no nodes. AskEndpoint
// sends no request that could disturb a running job.
func AskEndpoint(ctx context.Context, job Job, endpoint string) (here facts.Endpoint, nodes []Asked) {
	nodes, stood := hostsys.RepeatAfterStandstill(ctx, func(ctx context.Context) (nodes []Asked) {
		here, nodes = job.askEndpoint(ctx, endpoint)
		return nodes
	})
	if len(stood) > 1 {
		here.Failed, here.Outcome, here.Error = facts.HopConnect, "", stood[1].Error()
		for i := range nodes {
			nodes[i].Seen, nodes[i].Lost = nil, stood[1].Error()
		}
	}
	return here, nodes
}

func (job Job) askEndpoint(ctx context.Context, endpoint string) (here facts.Endpoint, nodes []Asked) {
	nodes = make([]Asked, len(job.Prediction.Hosts))
	var own sync.WaitGroup
	own.Go(func() { here = drill.Identify(ctx, endpoint, endpointTime) })
	job.askAll(ctx, Asking, jobsTime+endpointTime, func(i int) *facts.Node { return &nodes[i].Node }, func(ctx context.Context, at *remote.Agent, i int) error {
		node := &nodes[i]
		node.Jobs, node.JobsLost, _ = listJobs(ctx, at, agent.Listing{Port: port(endpoint)}) // the code below reports a lost agent
		seen, err := agent.Identify.Ask(ctx, at, agent.Endpoint{Endpoint: endpoint, Deadline: endpointTime, Of: runAt(node.Jobs, port(endpoint))})
		if err != nil {
			node.Lost = lostReason(err)
			return err
		}
		node.Seen = &seen
		return nil
	})
	own.Wait()
	return here, nodes
}

// askAll calls ask for every node of the launch that it reaches, for all of them at the same time.
// i is the node's position in the hostfile.
func (job Job) askAll(ctx context.Context, phase Phase, limit time.Duration, nodeOf func(i int) *facts.Node, ask func(ctx context.Context, at *remote.Agent, i int) error) {
	nodes := job.empty().Nodes
	for i, node := range nodes {
		*nodeOf(i) = node
	}
	if len(nodes) > 0 {
		job.emit(Event{Phase: Reaching, Step: Began, Nodes: len(nodes)})
	}
	opening := job.opening(phase, len(nodes))
	atOnce, short := job.Remote.Fit(job.Prediction.HostNames(), false, AtOnce)
	eachNode(len(nodes), atOnce, func(i int) {
		node := nodeOf(i)
		if short != nil {
			node.SSH = sshFacts(&remote.Trace{}, short)
			return
		}
		at, _ := job.reach(ctx, node)
		if at == nil {
			return
		}
		defer at.Close()
		ctx, cancel := within(ctx, limit)
		defer cancel()
		opening()
		job.emit(Event{Phase: phase, Step: Began, Node: node.Name})
		job.ended(phase, node.Name, ask(ctx, at, i))
	})
	job.emit(Event{Phase: phase, Step: Ended})
}

// runAt describes the run of a torchrun launcher on a node whose rendezvous is at the port. It
// returns the run ID and the size that the launcher was given, and how often it has restarted its
// ranks.
func runAt(jobs *facts.Jobs, port int) (run drill.Run) {
	if jobs == nil {
		return run
	}
	for _, p := range jobs.Processes {
		if p.Port != port {
			continue
		}
		run.Restarts = max(run.Restarts, p.Restarts)
		if p.Kind == facts.JobLauncher && p.Program == "torchrun" && run.ID == "" {
			run.ID = cmp.Or(p.RunID, "none") // torchrun's default in torch/distributed/run.py
			least, _, _ := strings.Cut(p.Nodes, ":")
			run.Nodes, _ = strconv.Atoi(least) // 0 if it is not a number
		}
	}
	return run
}

// port returns the port of host:port, or 0 if there is none.
func port(endpoint string) int {
	_, text, _ := net.SplitHostPort(endpoint)
	number, _ := strconv.Atoi(text)
	return number
}
