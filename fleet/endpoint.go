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

// endpointTime is what a machine gets to find out who is at an endpoint.
const endpointTime = 5 * time.Second

// Asked is one node and what it found at an endpoint.
type Asked struct {
	facts.Node
	Seen *facts.Endpoint // nil when the node could not look
	Lost string          // why a node that was reached could not
	// Jobs are what runs there of launches, nil with the reason in JobsLost.
	Jobs     *facts.Jobs
	JobsLost string
}

// AskEndpoint says who is at host:port, seen from this machine and, all at once,
// from every node of the launch (there may be none). Whoever is there is asked
// nothing that could disturb a running job.
func AskEndpoint(ctx context.Context, job Job, endpoint string) (here facts.Endpoint, nodes []Asked) {
	nodes, stood := hostsys.Anew(ctx, func(ctx context.Context) (nodes []Asked) {
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
		node.Jobs, node.JobsLost, _ = listJobs(ctx, at, port(endpoint)) // an agent that is lost is told of below
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

// askAll has ask called for every node of the launch that is reached, all at once, with its place in the hostfile.
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

// runAt is what a launcher of torchrun on a node that meets at the port was told, and how often it has started
// its ranks anew.
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
			run.ID = cmp.Or(p.RunID, "none") // the default of torch/distributed/run.py
			least, _, _ := strings.Cut(p.Nodes, ":")
			run.Nodes, _ = strconv.Atoi(least) // 0 for what is none
		}
	}
	return run
}

// port is that of host:port, 0 where there is none.
func port(endpoint string) int {
	_, text, _ := net.SplitHostPort(endpoint)
	number, _ := strconv.Atoi(text)
	return number
}
