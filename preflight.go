// SPDX-License-Identifier: Apache-2.0

// Package preflight performs one run. [NewPlan] plans the launch on the launching machine. [Look]
// collects the facts of every node and runs the drills, in which the nodes try what they will need
// from each other. [Run] calls Look and then evaluates the checks.
//
// Other packages do the work; this package only calls them in order. It does not read flags and
// does not render reports.
package preflight

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/checks/rehearsal"
	"preflight/diagnose/hang"
	"preflight/diagnose/rendezvous"
	"preflight/explain"
	"preflight/facts"
	"preflight/fleet"
	"preflight/hostfile"
	"preflight/internal/secret"
	"preflight/launch"
	"preflight/remote"
)

// Job holds everything that one run needs.
type Job struct {
	Plan    Plan
	Policy  checks.Policy
	Remote  *remote.Client
	Timeout time.Duration // time limit of each node, from name lookup to its last probed section
	// Throughput is how long neighbours send to each other; 0 skips the measurement.
	Throughput time.Duration
	Smoke      fleet.Smoke
	// Rehearse limits the time of a rehearsal; 0 for none. RehearseBusy rehearses on GPUs that other
	// programs use, too.
	Rehearse     time.Duration
	RehearseBusy bool
	// Progress receives every step of every node. It is nil if the caller wants no progress. Many
	// goroutines call it at the same time, and each waits until it returns.
	Progress func(fleet.Event)
}

// Run collects the facts of the whole fleet and evaluates the checks. If ctx ends early, the report
// is marked as interrupted and contains what was known by that time. If ctx ends while some nodes
// have not reported yet, the other nodes still run the drills for a few seconds.
func Run(ctx context.Context, job Job) checks.Report {
	seen, prediction := Look(ctx, job)
	report := Judge(seen, prediction, job.Policy)
	if ctx.Err() != nil {
		report.Interrupted = true
		report.Conclude(job.Policy.Strict)
	}
	return report
}

// Judge evaluates the checks on facts from this run or from a saved report. The same facts,
// prediction and policy always give the same report.
func Judge(seen facts.Fleet, prediction launch.Prediction, policy checks.Policy) checks.Report {
	return engine.Evaluate(catalogue.Catalogue, seen, prediction, policy)
}

// Look gathers the facts of the planned launch, in hostfile order, and completes the prediction
// with what the nodes reported. Neither result contains a possible secret. Nodes send no secrets,
// and Look removes those that it finds on this machine or on the way to a node.
func Look(ctx context.Context, job Job) (facts.Fleet, launch.Prediction) {
	look := fleet.Look
	if job.Plan.Alone {
		look = fleet.LookHere
	}
	seen, prediction := look(ctx, job.work())
	explainRehearsal(seen)
	secret.Within(&seen)
	secret.Within(&prediction)
	return seen, prediction
}

// explainRehearsal reads the output of a rehearsal's launchers and ranks as package explain reads
// the log of a dead job, and adds the causes that it finds to the facts.
func explainRehearsal(seen facts.Fleet) {
	if seen.Head == nil || seen.Head.Rehearsed == nil {
		return
	}
	seen.Head.Rehearsed.Causes = nil
	var log strings.Builder
	if program := seen.Head.Rehearsed.Program; program != nil {
		log.WriteString(program.Output + "\n")
	}
	for _, node := range seen.Nodes {
		if node.Rehearsed == nil || node.Rehearsed.Program == nil {
			continue
		}
		for line := range strings.Lines(node.Rehearsed.Program.Output) { // as pdsh labels the lines of a node
			log.WriteString(hostfile.Bare(node.Name) + ": " + line)
		}
	}
	catalogue, err := explain.Load()
	if err != nil {
		return // its own tests load the same files, so that this does not happen
	}
	read := catalogue.Explain([]explain.Source{{Name: "rehearsal", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log.String())), nil }}})
	for _, cause := range read.Causes {
		seen.Head.Rehearsed.Causes = append(seen.Head.Rehearsed.Causes, facts.RehearsedCause{
			Cause: cause.Cause, Check: cause.Check, Summary: cause.Summary, Nodes: cause.Nodes, Fix: cause.Fix})
	}
}

// isUnexplained reports whether the rehearsal failed and neither its output nor a check shows why.
func (job Job) isUnexplained(seen facts.Fleet, prediction launch.Prediction) bool {
	explainRehearsal(seen)
	return rehearsal.IsUnexplained(Judge(seen, prediction, job.Policy))
}

// AskEndpoint reports which process answers at host:port, seen from this machine and from every
// node of the launch. The launch may have no nodes. AskEndpoint sends no request that could disturb
// a running job. If nodes run processes of a job whose rendezvous is at the endpoint, the report
// covers that job too.
func AskEndpoint(ctx context.Context, job Job, endpoint string) rendezvous.Report {
	report := rendezvous.Report{Schema: checks.Schema, Endpoint: endpoint, Nodes: []rendezvous.Node{}}
	var nodes []fleet.Asked
	report.Here, nodes = fleet.AskEndpoint(ctx, job.work(), endpoint)
	var running []hang.Node
	for _, node := range nodes {
		report.Nodes = append(report.Nodes, rendezvous.Node{Node: node.Node, Seen: node.Seen, Lost: node.Lost})
		running = append(running, hang.Node{Node: node.Node, Jobs: node.Jobs, Lost: cmp.Or(node.JobsLost, node.Lost)})
	}
	if found := judgeHang(ctx, job, running, endpoint); found.World > 0 {
		report.Job = &found
	}
	report.Interrupted = ctx.Err() != nil
	rendezvous.Judge(&report, job.Plan.Prediction.SSHPort)
	return report
}

// Hang reports which ranks are missing from a job that hangs or which rank the others wait for, based
// on the processes on the launch's nodes. It signals none of them. If all ranks have met and nothing
// moves, it also reads their Python stacks on nodes where py-spy is installed, without stopping a rank
// and without the values of variables. The report contains the stacks if stacks is true.
func Hang(ctx context.Context, job Job, stacks bool) hang.Report {
	var nodes []hang.Node
	for _, node := range fleet.WatchJobs(ctx, job.work()) {
		nodes = append(nodes, hang.Node{Node: node.Node, Jobs: node.Jobs, Lost: node.Lost})
	}
	report := judgeHang(ctx, job, nodes, "")
	if !report.Still && !stacks {
		return report
	}
	pids := map[string][]int{}
	for _, n := range report.Named {
		pids[n.Node] = append(pids[n.Node], n.PID)
	}
	read := fleet.ReadStacks(ctx, job.work(), pids)
	for i := range nodes {
		if nodes[i].Stacks = read[nodes[i].Name]; nodes[i].Stacks == nil {
			for _, pid := range pids[nodes[i].Name] {
				nodes[i].Stacks = append(nodes[i].Stacks, facts.Stack{PID: pid, Problem: "the connection to the node was lost"})
			}
		}
	}
	report = judgeHang(ctx, job, nodes, "")
	if !stacks {
		for i := range report.Named {
			report.Named[i].Stack = nil
		}
	}
	return report
}

func judgeHang(ctx context.Context, job Job, nodes []hang.Node, endpoint string) hang.Report {
	report := hang.Report{Schema: checks.Schema, Nodes: nodes, Interrupted: ctx.Err() != nil}
	hang.Judge(&report, endpoint, job.Plan.Prediction.SSHPort)
	return report
}

// work returns the part of the job that package fleet needs.
func (job Job) work() fleet.Job {
	smoke := job.Smoke
	if smoke.Time == 0 && job.Rehearse > 0 {
		smoke = fleet.Smoke{Time: job.Rehearse, Needed: job.isUnexplained}
	}
	return fleet.Job{
		Head: job.Plan.Head, Prediction: job.Plan.Prediction,
		Remote: job.Remote, Timeout: job.Timeout, Throughput: job.Throughput, Smoke: smoke, Shared: job.Policy.Shared, Progress: job.Progress,
		Rehearsal: fleet.Rehearsal{Time: job.Rehearse, StandIn: job.Plan.StandIn, Busy: job.RehearseBusy},
		SwitchedOff: func(check string) string {
			if job.Policy.SwitchesOff(check) {
				return checks.SwitchedOff
			}
			return ""
		},
		AskedFor: func(check string) bool { return slices.Contains(job.Policy.Only, check) },
	}
}
