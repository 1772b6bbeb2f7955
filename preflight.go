// Package preflight is the story of one run, told once: look at the launching
// machine and predict the launch ([Foresee]), then reach every node, probe it,
// have the nodes try what they will need of each other, and judge ([Run]).
//
// The rooms do the work; this package only says who follows whom. It refuses
// to read flags, to render, and to let one node's trouble delay another's.
package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"preflight/checks"
	"preflight/facts"
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

// Job is everything one run needs.
type Job struct {
	Plan    Plan
	Policy  checks.Policy
	Remote  *remote.Client
	Timeout time.Duration // for one node, from its name to its last probed section
	// Throughput is for how long neighbours send to each other, 0 for not at all.
	Throughput time.Duration
	// Progress hears of every step of every node; nil when nobody listens.
	// It is called from many goroutines at once, which wait for it.
	Progress func(Event)
}

// Run looks at the whole fleet and judges it. A run whose context ends early
// reports what it knows by then and says that it was interrupted.
func Run(ctx context.Context, job Job) checks.Report {
	fleet, prediction := Look(ctx, job)
	report := checks.Evaluate(checks.Catalogue, fleet, prediction, job.Policy)
	if ctx.Err() != nil {
		report.Interrupted = true
		report.Conclude(job.Policy.Strict)
	}
	return report
}

// Look gathers the facts of the planned launch: of all nodes at once, then what
// only their calling each other can tell. Results keep hostfile order. The
// prediction is the plan's, settled by what the nodes showed.
func Look(ctx context.Context, job Job) (facts.Fleet, launch.Prediction) {
	prediction := job.Plan.Prediction
	fleet := facts.Fleet{Head: job.Plan.Head, Nodes: make([]facts.Node, len(prediction.Hosts))}
	for i, host := range prediction.Hosts {
		fleet.Nodes[i] = facts.Node{Name: host.Name, Slots: len(host.Slots)}
	}
	if job.Plan.Alone {
		job.lookAlone(ctx, &fleet)
		return fleet, prediction.Settled(fleet.Nodes)
	}
	sections, options := job.probing(ctx)
	job.tell(Event{Phase: Reaching, Step: Began, Nodes: len(fleet.Nodes)})
	looking := job.opening(Looking, len(fleet.Nodes))
	var all sync.WaitGroup
	places := make(chan struct{}, AtOnce)
	agents := make([]*remote.Agent, len(fleet.Nodes))
	for i := range fleet.Nodes {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			agents[i] = job.look(ctx, &fleet.Nodes[i], sections, encode(options), looking)
		})
	}
	all.Wait()
	job.tell(Event{Phase: Looking, Step: Ended})
	crew := muster(fleet.Nodes, agents)
	defer crew.dismiss()
	job.Plan.Prediction = prediction.Settled(fleet.Nodes)
	job.drill(ctx, &fleet, crew)
	return fleet, job.Plan.Prediction
}

// probing is what every node is asked to look at.
func (job Job) probing(ctx context.Context) ([]facts.Section, probe.Options) {
	prediction := job.Plan.Prediction
	options := probe.Options{
		Master:      prediction.MeetingHost(),
		MasterPort:  prediction.MasterPort,
		Interpreter: prediction.Interpreter,
		WorkDir:     prediction.WorkDir,
		Files:       prediction.Files,
	}
	for _, host := range prediction.Hosts {
		options.Names = append(options.Names, host.Name)
	}
	options.Peers = peerAddresses(ctx, options.Names)
	if config := prediction.Config; config != nil {
		options.Offload = map[string]string{}
		for _, offload := range config.Offload {
			if filepath.IsAbs(offload.Path) { // where another one lies is the script's business
				options.Offload["offload-"+offload.What] = offload.Path
			}
		}
	}
	unneeded := job.Plan.unneeded()
	return slices.DeleteFunc(slices.Clone(nodeSections), func(s facts.Section) bool { return unneeded[s] != "" }), options
}

// lookAlone looks at the launching machine as the one node of a launch that
// stays there, and needs no ssh.
func (job Job) lookAlone(ctx context.Context, fleet *facts.Fleet) {
	node := &fleet.Nodes[0]
	node.Reached, node.Missing = true, map[facts.Section]string{}
	sections, options := job.probing(ctx)
	options.Names, options.Peers, options.Deadline = nil, nil, job.Timeout
	sections = slices.DeleteFunc(slices.Clone(sections), func(s facts.Section) bool { return s == facts.SectionNames })
	job.tell(Event{Phase: Looking, Step: Began, Nodes: 1})
	job.tell(Event{Phase: Looking, Step: Began, Node: node.Name, Until: time.Now().Add(job.Timeout)})
	lookHere(ctx, node, options, sections)
	job.tell(Event{Phase: Looking, Step: Ended, Node: node.Name})
	fleet.NotTried = map[facts.Section]string{}
	for _, section := range slices.Concat(drillSections, []facts.Section{facts.SectionSSH, facts.SectionClock, facts.SectionNames, facts.SectionRehearsal}) {
		fleet.NotTried[section] = "there is no hostfile: the ranks start on this machine"
	}
	maps.Copy(fleet.NotTried, job.Plan.unneeded())
}

// look reaches one node and has it probed. Whatever happens, every section
// ends up seen or missing with a reason. The agent is the caller's to close; it
// is nil when the node was lost. looking is called once it is reached.
func (job Job) look(ctx context.Context, node *facts.Node, sections []facts.Section, options json.RawMessage, looking func()) *remote.Agent {
	end := time.Now().Add(job.Timeout)
	job.tell(Event{Phase: Reaching, Step: Began, Node: node.Name, Until: end})
	agent, trace, err := job.Remote.Reach(ctx, node.Name)
	job.ended(Reaching, node.Name, err)
	node.SSH = sshFacts(trace, err)
	node.Address = trace.Address
	if err != nil {
		node.Missing = everySection("not reached")
		return nil
	}
	node.Reached = true
	looking()
	job.tell(Event{Phase: Looking, Step: Began, Node: node.Name, Until: end})
	node.Missing = map[facts.Section]string{}
	node.Clock = &facts.Clock{Offset: agent.Offset.Seconds(), Uncertainty: agent.Uncertainty.Seconds()}
	probing, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	left := max(time.Until(end)-answerTime, time.Millisecond) // a deadline of 0 would be the probe's own
	request := probeRequest{Sections: sections, Options: options, Deadline: left}
	err = agent.Call(probing, methodProbe, request, func(part string, body json.RawMessage) {
		take(node, sections, facts.Section(part), body)
	})
	job.ended(Looking, node.Name, err)
	for _, section := range sections {
		if !node.Has(section) && node.Missing[section] == "" {
			node.Missing[section] = lostReason(err)
		}
	}
	if failure := (*remote.Error)(nil); errors.As(err, &failure) {
		// The agent started and was lost on the way: that is one root cause, unless
		// it was our own user who had enough.
		if failure.Cause != remote.Interrupted {
			node.SSH = sshFacts(trace, err)
			node.Reached = false
		}
		agent.Close()
		return nil
	}
	return agent
}

func everySection(reason string) map[facts.Section]string {
	missing := map[facts.Section]string{facts.SectionClock: reason}
	for _, section := range slices.Concat(nodeSections, drillSections) {
		missing[section] = reason
	}
	return missing
}

func lostReason(err error) string {
	if err == nil {
		return "the agent sent no answer for it"
	}
	failure := (*remote.Error)(nil)
	switch {
	case !errors.As(err, &failure):
		return fmt.Sprintf("lost: %v", err)
	case failure.Cause == remote.Interrupted:
		return "no answer yet when the run was interrupted"
	}
	return fmt.Sprintf("lost: %s: %v", failure.Cause, failure.Err) // the node is named where this is read
}

// sshFacts carries what was met on the way to a node over into the facts.
func sshFacts(trace *remote.Trace, err error) *facts.SSH {
	ssh := &facts.SSH{
		User: trace.User, Port: trace.Port, Via: trace.Via, Banner: trace.Banner,
		OpenSSH: trace.OpenSSH, Noise: trace.Noise, Path: trace.Path, Delivered: trace.Delivered,
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
