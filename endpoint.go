package preflight

import (
	"context"
	"sync"
	"time"

	"preflight/checks"
	"preflight/drill"
	"preflight/facts"
)

const (
	// endpointTime is what a machine gets to find out who is at an endpoint.
	endpointTime = 5 * time.Second
	// askersAtOnce is how many ask at a time. A store of torch's older kind looks
	// every caller's name up before it serves the next rank.
	askersAtOnce = 8
)

// AskEndpoint says who is at host:port, seen from this machine and from every
// node of the launch (there may be none), and judges it. Whoever is there is
// asked nothing that could disturb a running job.
func AskEndpoint(ctx context.Context, job Job, endpoint string) checks.EndpointReport {
	seen := checks.EndpointReport{Schema: checks.Schema, Endpoint: endpoint, Nodes: make([]checks.EndpointNode, len(job.Plan.Prediction.Hosts))}
	var all sync.WaitGroup
	all.Go(func() { seen.Here = drill.Identify(ctx, endpoint, endpointTime) })
	if len(seen.Nodes) > 0 {
		job.tell(Event{Phase: Reaching, Step: Began, Nodes: len(seen.Nodes)})
	}
	places, asking, opening := make(chan struct{}, AtOnce), make(chan struct{}, askersAtOnce), job.opening(Asking, len(seen.Nodes))
	for i, host := range job.Plan.Prediction.Hosts {
		seen.Nodes[i].Node = facts.Node{Name: host.Name, Slots: len(host.Slots)}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			job.askFrom(ctx, endpoint, asking, opening, &seen.Nodes[i])
		})
	}
	all.Wait()
	job.tell(Event{Phase: Asking, Step: Ended})
	seen.Interrupted = ctx.Err() != nil
	checks.JudgeEndpoint(&seen, job.Plan.Prediction.SSHPort)
	return seen
}

// askFrom has one node say who is at the endpoint. opening is called once it may.
func (job Job) askFrom(ctx context.Context, endpoint string, asking chan struct{}, opening func(), node *checks.EndpointNode) {
	job.tell(Event{Phase: Reaching, Step: Began, Node: node.Name, Until: time.Now().Add(job.Timeout)})
	agent, trace, err := job.Remote.Reach(ctx, node.Name)
	node.SSH, node.Address = sshFacts(trace, err), trace.Address
	job.ended(Reaching, node.Name, err)
	if err != nil {
		return
	}
	defer agent.Close()
	node.Reached = true
	asking <- struct{}{}
	defer func() { <-asking }()
	ctx, cancel := within(ctx, endpointTime)
	defer cancel()
	until, _ := ctx.Deadline()
	opening()
	job.tell(Event{Phase: Asking, Step: Began, Node: node.Name, Until: until})
	seen, err := ask[facts.Endpoint](ctx, agent, methodEndpoint, endpointRequest{Endpoint: endpoint, Deadline: endpointTime})
	job.ended(Asking, node.Name, err)
	if err != nil {
		node.Lost = lostReason(err)
		return
	}
	node.Seen = &seen
}
