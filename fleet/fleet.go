// SPDX-License-Identifier: Apache-2.0

// Package fleet is a run under way: every node reached and looked at by an agent
// of its own, then the drills, which try what only nodes together can show. It
// knows who waits for whom, and reports progress.
//
// It refuses to judge what it gathers, and to wait for a node beyond its own time:
// results keep hostfile order, nodes are looked at without batches, and a node that
// is lost costs only itself. A drill is one row of [Drills].
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

// AtOnce bounds how many nodes are being reached or probed at any moment. It
// is far above the number of logins two cores can keep busy, so that nodes
// which only wait for a dead peer's deadline do not hold up the others.
const AtOnce = 512

// answerTime is what an agent leaves of its node's time, so that what it has to
// say of a section that hangs still arrives before the node is given up.
const answerTime = 500 * time.Millisecond

// answerTimeOf is that of a look: the longer it may take, the longer a busy node may take to answer.
func answerTimeOf(left time.Duration) time.Duration {
	return min(max(left/8, answerTime), 4*answerTime)
}

// interruptedTime is what the drills get when the user interrupts the wait for the last nodes:
// enough for a healthy fleet, and for a mesh of which packets are lost.
const interruptedTime = 5 * time.Second

// Job is what a fleet is to do.
type Job struct {
	Head       *facts.Node // the launching machine, already looked at
	Prediction launch.Prediction
	Remote     *remote.Client
	Timeout    time.Duration // for one node, from its name to its last probed section
	// Throughput is for how long neighbours send to each other, 0 for not at all.
	Throughput time.Duration
	Smoke      Smoke
	// SwitchedOff is why a check does not run, "" when it does.
	SwitchedOff func(check string) (why string)
	// AskedFor is whether somebody asked for a check by its name, at any price.
	AskedFor func(check string) bool
	// Progress gets every step of every node; nil when nobody listens.
	// It is called from many goroutines at once, which wait for it.
	Progress func(Event)

	alike *alike // of those that are being looked at
}

// Look gathers the facts of the planned launch: of all nodes at once, then what
// only their calling each other can show. Results keep hostfile order. The
// prediction is the job's, settled by what the nodes showed.
func Look(ctx context.Context, job Job) (facts.Fleet, launch.Prediction) {
	return job.anew(ctx, Job.look)
}

// anew has the fleet looked at, once more where this machine stood still meanwhile, and
// where that happens again says of no node what it may have said.
func (job Job) anew(ctx context.Context, look func(Job, context.Context) (facts.Fleet, launch.Prediction)) (facts.Fleet, launch.Prediction) {
	prediction, w := job.Prediction, hostsys.BeginWait()
	fleet, stood := hostsys.Anew(ctx, func(ctx context.Context) (fleet facts.Fleet) {
		fleet, prediction = look(job, ctx)
		return fleet
	})
	if len(stood) > 1 {
		fleet, prediction = job.empty(), job.Prediction
		again := &remote.Error{Stage: remote.StageConnect, Cause: remote.HeadStood, Err: fmt.Errorf("%w, and then for %s", stood[0], text.Duration(stood[1].For.Seconds()))}
		for i := range fleet.Nodes {
			fleet.Nodes[i].SSH, fleet.Nodes[i].Missing = sshFacts(&remote.Trace{}, again), everySection("not reached")
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

// look is a whole run: every node is reached and looked at, then the nodes that reported run the
// drills. These begin when every node has reported or run out of time. When the user interrupts
// that wait, they begin among the nodes that are there, and have interruptedTime; later, an
// interrupt ends them at once.
func (job Job) look(ctx context.Context) (facts.Fleet, launch.Prediction) {
	keepSmall(len(job.Prediction.Hosts))
	fleet := job.empty()
	r := job.newRun(&fleet)
	agents, hangUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer hangUp(nil)
	r.members = job.lookAtAll(ctx, agents, fleet.Nodes)
	defer r.members.close()
	drills, end := context.WithCancel(agents) // ends what listens
	defer end()
	rest := time.Duration(0) // what the drills have left when ctx ends
	if _, stood := errors.AsType[*hostsys.StoodStill](context.Cause(ctx)); ctx.Err() != nil && !stood {
		rest = interruptedTime
	}
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(rest, func() { hangUp(context.Cause(ctx)) })
	})()
	r.assemble()
	r.try(drills, false)
	if ctx.Err() != nil { // the last ones take longer
		hangUp(context.Cause(ctx))
	}
	r.try(drills, true)
	return fleet, r.Prediction
}

// lookAtAll has every node reached and looked at, and returns those that reported, in hostfile
// order. When ctx ends it gives up the others; the agents of those that reported live until
// agents ends.
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
			came = append(came, &member{Node: &nodes[i], agent: at, turn: len(came)})
		}
	}
	return came
}

// empty is the fleet of whose nodes nothing is known but what the hostfile says.
func (job Job) empty() facts.Fleet {
	fleet := facts.Fleet{Head: job.Head, Nodes: make([]facts.Node, len(job.Prediction.Hosts))}
	for i, host := range job.Prediction.Hosts {
		fleet.Nodes[i] = facts.Node{Name: host.Name, Slots: len(host.Slots)}
	}
	return fleet
}

// eachNode has work done for n nodes, so many of them at any moment.
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

// reach gets to a node and says in the node's facts what was met on the way. The
// agent is the caller's to close; it is nil when the node was not reached.
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

// lookAt reaches one node and has it probed. Whatever happens, every section
// ends up seen or missing with a reason. The agent is the caller's to close; it
// is nil when the node was lost. looking, and asked for what to look at, are called once it is reached.
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
	probing.Deadline = max(left-answerTimeOf(left), time.Millisecond) // a deadline of 0 would be the probe's own
	err := remote.Excuse(job.probe(limit, at, node, probing), w)
	job.ended(Looking, node.Name, err)
	if failure := (*remote.Error)(nil); errors.As(err, &failure) {
		// The agent started and was lost on the way: that is one root cause, unless
		// it was our own user who had enough.
		if failure.Cause != remote.Interrupted {
			node.SSH = sshFacts(trace, err)
			node.Reached = false
		}
		go at.Close() // which takes a while where it hangs, and is nobody's to wait for
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
	return fmt.Sprintf("lost: %s: %v", failure.Cause, failure.Err) // the node is named where this is read
}

// sshFacts carries what was met on the way to a node over into the facts.
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

// failed says in the facts how far the way to a node led.
func failed(ssh *facts.SSH, failure *remote.Error) {
	ssh.Stage, ssh.Cause = string(failure.Stage), string(failure.Cause)
	ssh.Message, ssh.Detail = failure.Err.Error(), failure.Detail
}
