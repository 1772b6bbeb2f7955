// SPDX-License-Identifier: Apache-2.0

// Package fleet performs a run. It reaches every node, lets an agent there report facts, and then
// runs the drills, which test what only several nodes together can show. It decides which part of a
// run waits for which other part, and reports progress.
//
// The package does not evaluate the facts that it gathers, and it waits for no node longer than
// that node's time limit. Results keep hostfile order, there are no batches, and a lost node
// affects no other. Each drill is one row of [Drills].
package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"preflight/agent"
	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/text"
	"preflight/launch"
	"preflight/probe"
	"preflight/remote"
)

// AtOnce limits how many nodes are reached or probed at the same time. It is far above the number
// of logins that two cores can handle. Many nodes may only wait for a dead peer's deadline, and
// these must not delay the others.
const AtOnce = 512

// answerTime is the part of a node's time that the agent does not use. It lets the agent's report
// about a hanging section arrive before preflight gives up the node.
const answerTime = 500 * time.Millisecond

// answerTimeOf returns the answerTime for probing. The longer the probing may take, the more time a
// busy node gets for its answer.
func answerTimeOf(left time.Duration) time.Duration {
	return min(max(left/8, answerTime), 4*answerTime)
}

// interruptedTime is how long the drills may run after the user interrupts the wait for the last
// nodes. It is enough for a healthy fleet and for a mesh that loses packets.
const interruptedTime = 5 * time.Second

// Job holds what package fleet needs for a run.
type Job struct {
	Head       *facts.Node // the launching machine, already probed
	Prediction launch.Prediction
	Remote     *remote.Client
	Timeout    time.Duration // time limit of each node, from name lookup to its last probed section
	// Throughput is how long neighbours send to each other; 0 skips the measurement.
	Throughput time.Duration
	Smoke      Smoke
	Rehearsal  Rehearsal
	Shared     []string // directories that the policy says all nodes share
	// SwitchedOff returns why a check does not run, or "" if the check runs.
	SwitchedOff func(check string) (why string)
	// AskedFor reports whether the user named a check explicitly. Such a check runs whatever it
	// costs. nil means that the user named none.
	AskedFor func(check string) bool
	// Progress receives every step of every node. It is nil if the caller wants no progress. Many
	// goroutines call it at the same time, and each waits until it returns.
	Progress func(Event)

	alike *alike // shared by the nodes that are being probed
}

// Look gathers the facts of the planned launch. It first probes all nodes at the same time and then
// runs the drills. Results keep hostfile order. The returned prediction is the job's own, completed
// with what the nodes reported.
func Look(ctx context.Context, job Job) (facts.Fleet, launch.Prediction) {
	return job.withRetry(ctx, Job.look)
}

// withRetry calls look. If this machine stood still during the call (stopped, asleep or frozen),
// withRetry calls look again. If the machine stands still in both calls, withRetry reports nothing
// about any node, because the answers cannot be trusted.
func (job Job) withRetry(ctx context.Context, look func(Job, context.Context) (facts.Fleet, launch.Prediction)) (facts.Fleet, launch.Prediction) {
	prediction, w := job.Prediction, hostsys.BeginWait()
	fleet, stood := hostsys.RepeatAfterStandstill(ctx, func(ctx context.Context) (fleet facts.Fleet) {
		fleet, prediction = look(job, ctx)
		return fleet
	})
	if len(stood) > 1 {
		fleet, prediction = job.empty(), job.Prediction
		failure := &remote.Error{Stage: remote.StageConnect, Cause: remote.HeadStood, Err: fmt.Errorf("%w, and then for %s", stood[0], text.Duration(stood[1].For.Seconds()))}
		for i := range fleet.Nodes {
			fleet.Nodes[i].SSH, fleet.Nodes[i].Missing = sshFacts(&remote.Trace{}, failure), everySection("not reached")
		}
	}
	for _, still := range stood {
		fleet.StoodStill = append(fleet.StoodStill, still.For.Seconds())
	}
	if late := w.Busy(); late > time.Second {
		fleet.Behind = late.Seconds()
	}
	return fleet, prediction
}

// look performs a whole run. It reaches and probes every node; then the nodes that reported run the
// drills. The drills begin when every node has reported or run out of time.
//
// If the user interrupts that wait, the nodes that have already reported begin the drills and get
// interruptedTime. An interrupt during the drills ends them at once.
func (job Job) look(ctx context.Context) (facts.Fleet, launch.Prediction) {
	keepSmall(len(job.Prediction.Hosts))
	fleet := job.empty()
	r := job.newRun(&fleet)
	agents, hangUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer hangUp(nil)
	r.members = job.lookAtAll(ctx, agents, fleet.Nodes)
	defer r.members.close()
	drills, end := context.WithCancel(agents) // end stops the listeners
	defer end()
	rest := time.Duration(0) // how long the drills may continue after ctx ends
	if _, stood := errors.AsType[*hostsys.StoodStill](context.Cause(ctx)); ctx.Err() != nil && !stood {
		rest = interruptedTime
	}
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(rest, func() { hangUp(context.Cause(ctx)) })
	})()
	r.assemble()
	r.try(drills, false)
	if ctx.Err() != nil { // sections whose last row is present take longer
		hangUp(context.Cause(ctx))
	}
	r.rehearseAgain(drills)
	r.try(drills, true)
	return fleet, r.Prediction
}

// lookAtAll reaches and probes every node, and returns the nodes that reported, in hostfile order.
// When ctx ends, it gives up the other nodes. The agents of the nodes that reported live until the
// context agents ends.
func (job Job) lookAtAll(ctx, agents context.Context, nodes []facts.Node) (came members) {
	asking := job.asking(ctx)
	job.alike = &alike{}
	job.emit(Event{Phase: Reaching, Step: Began, Nodes: len(nodes)})
	looking := job.opening(Looking, len(nodes))
	atOnce, short := job.Remote.Fit(job.Prediction.HostNames(), true, AtOnce)
	talking := make([]*remote.Agent, len(nodes))
	eachNode(len(nodes), atOnce, func(i int) {
		if short != nil {
			nodes[i].SSH, nodes[i].Missing = sshFacts(&remote.Trace{}, short), everySection("not reached")
			return
		}
		own, giveUp := context.WithCancelCause(agents)
		defer context.AfterFunc(ctx, func() { giveUp(context.Cause(ctx)) })()
		talking[i] = job.lookAt(own, &nodes[i], func() agent.Probing { return asking(i) }, looking)
	})
	job.emit(Event{Phase: Reaching, Step: Ended})
	job.emit(Event{Phase: Looking, Step: Ended})
	for i, at := range talking {
		if at != nil {
			came = append(came, &member{Node: &nodes[i], agent: at, position: len(came)})
		}
	}
	return came
}

// empty returns a fleet whose nodes hold only what the hostfile says about them.
func (job Job) empty() facts.Fleet {
	fleet := facts.Fleet{Head: job.Head, Nodes: make([]facts.Node, len(job.Prediction.Hosts))}
	for i, host := range job.Prediction.Hosts {
		fleet.Nodes[i] = facts.Node{Name: host.Name, Slots: len(host.Slots)}
	}
	return fleet
}

// eachNode calls work for n nodes, with at most atOnce calls at the same time.
func eachNode(n, atOnce int, work func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			work(i)
		})
	}
	all.Wait()
}

// reach connects to a node and records in the node's facts what it found on the way. The caller
// must close the agent. The agent is nil if the node was not reached.
func (job Job) reach(ctx context.Context, node *facts.Node) (*remote.Agent, *remote.Trace) {
	job.emit(Event{Phase: Reaching, Step: Began, Node: node.Name})
	agent, trace, err := job.Remote.Reach(ctx, node.Name)
	job.ended(Reaching, node.Name, err)
	node.SSH, node.Address, node.Reached = sshFacts(trace, err), trace.Address, err == nil
	if err != nil {
		return nil, trace
	}
	return agent, trace
}

// lookAt reaches one node and probes it. In every case, each section ends up either present or
// missing with a reason. Once the node is reached, lookAt calls looking, and then calls asked to
// learn what to probe. The caller must close the agent, which is nil if the node was lost.
func (job Job) lookAt(ctx context.Context, node *facts.Node, asked func() agent.Probing, looking func()) *remote.Agent {
	w, end := hostsys.BeginWait(), time.Now().Add(job.Timeout)
	limit, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	at, trace := job.reach(ctx, node)
	if at == nil {
		node.Missing = everySection("not reached")
		return nil
	}
	looking()
	job.emit(Event{Phase: Looking, Step: Began, Node: node.Name})
	node.Missing = map[facts.Section]string{}
	node.Clock = &facts.Clock{Offset: at.Offset.Seconds(), Uncertainty: at.Uncertainty.Seconds()}
	probing := asked()
	left := time.Until(end)
	probing.Deadline = max(left-answerTimeOf(left), time.Millisecond) // the probe would replace a deadline of 0 with its default
	err := remote.Excuse(job.probe(limit, at, node, probing), w)
	job.ended(Looking, node.Name, err)
	if failure := (*remote.Error)(nil); errors.As(err, &failure) {
		// The agent started and was lost later. The lost agent is one root cause, unless the user
		// interrupted the run.
		if failure.Cause != remote.Interrupted {
			node.SSH = sshFacts(trace, err)
			node.Reached = false
		}
		go at.Close() // Close takes a while if the agent hangs, so nothing waits for it
		return nil
	}
	return at
}

func everySection(reason string) map[facts.Section]string {
	missing := map[facts.Section]string{facts.SectionClock: reason}
	for _, section := range probe.Of(probe.Nodes) {
		missing[section] = reason
	}
	for _, d := range Drills {
		if !d.Alone {
			missing[d.Section] = reason
		}
	}
	return missing
}

func lostReason(err error) string {
	if err == nil {
		return "the agent sent no answer for this section"
	}
	failure := (*remote.Error)(nil)
	switch {
	case !errors.As(err, &failure):
		return fmt.Sprintf("lost: %v", err)
	case failure.Cause == remote.Interrupted:
		return "the run was interrupted before an answer came"
	}
	return fmt.Sprintf("lost: %s: %v", failure.Cause, failure.Err) // the reader of this text adds the node's name
}

// sshFacts converts what was recorded on the way to a node into facts.
func sshFacts(trace *remote.Trace, err error) *facts.SSH {
	ssh := &facts.SSH{
		Carrier: trace.Carrier, Options: trace.Options, Inside: trace.Inside, User: trace.User, Port: trace.Port, Via: trace.Via, Banner: trace.Banner,
		OpenSSH: trace.OpenSSH, Noise: trace.Noise, Path: trace.Path, Delivered: trace.Delivered, Distrusted: trace.Distrusted, Uncalled: trace.Uncalled,
		ConnectSeconds: trace.Connected.Seconds(), StartSeconds: trace.Started.Seconds(),
	}
	var failure *remote.Error
	switch {
	case errors.As(err, &failure):
		failed(ssh, failure)
	case err != nil:
		ssh.Cause, ssh.Message = string(remote.Unexpected), err.Error()
	}
	return ssh
}

// failed records in the facts at which step the connection to a node failed.
func failed(ssh *facts.SSH, failure *remote.Error) {
	ssh.Stage, ssh.Cause = string(failure.Stage), string(failure.Cause)
	ssh.Message, ssh.Detail = failure.Err.Error(), failure.Detail
}
