// SPDX-License-Identifier: Apache-2.0

// Package preflight is the story of one run, told once: plan the launch on the
// launching machine ([NewPlan]), look at every node and have the nodes try what
// they will need of each other ([Look]), and judge ([Run]).
//
// The rooms do the work; this package only says who follows whom. It refuses
// to read flags and to render.
package preflight

import (
	"cmp"
	"context"
	"slices"
	"time"

	"preflight/checks"
	"preflight/checks/catalogue"
	"preflight/checks/engine"
	"preflight/diagnose/hang"
	"preflight/diagnose/rendezvous"
	"preflight/facts"
	"preflight/fleet"
	"preflight/internal/secret"
	"preflight/launch"
	"preflight/remote"
)

// Job is everything one run needs.
type Job struct {
	Plan    Plan
	Policy  checks.Policy
	Remote  *remote.Client
	Timeout time.Duration // for one node, from its name to its last probed section
	// Throughput is for how long neighbours send to each other, 0 for not at all.
	Throughput time.Duration
	Smoke      fleet.Smoke
	// Progress gets every step of every node; nil when nobody listens.
	// It is called from many goroutines at once, which wait for it.
	Progress func(fleet.Event)
}

// Run looks at the whole fleet and judges it. A run whose context ends early reports that it was
// interrupted, and what it knows; if nodes were still awaited, after a few seconds of drills.
func Run(ctx context.Context, job Job) checks.Report {
	seen, prediction := Look(ctx, job)
	report := Judge(seen, prediction, job.Policy)
	if ctx.Err() != nil {
		report.Interrupted = true
		report.Conclude(job.Policy.Strict)
	}
	return report
}

// Judge judges what was seen, now or when a report was saved: the same facts, prediction and
// policy give the same report, wherever that is.
func Judge(seen facts.Fleet, prediction launch.Prediction, policy checks.Policy) checks.Report {
	return engine.Evaluate(catalogue.Catalogue, seen, prediction, policy)
}

// Look gathers the facts of the planned launch, in hostfile order, and settles
// the prediction by what the nodes showed. What may be a secret is in neither: a node sends
// none, and of what is met on the way there and on this machine none is kept.
func Look(ctx context.Context, job Job) (facts.Fleet, launch.Prediction) {
	look := fleet.Look
	if job.Plan.Alone {
		look = fleet.LookHere
	}
	seen, prediction := look(ctx, job.work())
	secret.Within(&seen)
	secret.Within(&prediction)
	return seen, prediction
}

// AskEndpoint says who is at host:port, seen from this machine and from every
// node of the launch (there may be none), and judges it. Whoever is there is
// asked nothing that could disturb a running job. Where nodes show processes of a job that
// meets there, it is judged too.
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

// Hang says who is missing from a job that hangs on the nodes of the launch, by what runs on
// them. Nobody there is asked anything or signalled.
func Hang(ctx context.Context, job Job) hang.Report {
	var nodes []hang.Node
	for _, node := range fleet.ListJobs(ctx, job.work(), 0) {
		nodes = append(nodes, hang.Node(node))
	}
	return judgeHang(ctx, job, nodes, "")
}

// ReadStacks adds to a report where the Python of the ranks is that it names, as py-spy sees it
// where that is installed. None of them is stopped for it, and no value of a variable is read.
func ReadStacks(ctx context.Context, job Job, r *hang.Report) {
	pids := map[string][]int{}
	for _, n := range r.Named {
		pids[n.Node] = append(pids[n.Node], n.PID)
	}
	by := fleet.ReadStacks(ctx, job.work(), pids)
	for i := range r.Named {
		n := &r.Named[i]
		at := slices.IndexFunc(by[n.Node], func(s facts.Stack) bool { return s.PID == n.PID })
		if at < 0 {
			n.Stack = &facts.Stack{PID: n.PID, Problem: "the connection to the node was lost"}
			continue
		}
		n.Stack = &by[n.Node][at]
	}
}

func judgeHang(ctx context.Context, job Job, nodes []hang.Node, endpoint string) hang.Report {
	report := hang.Report{Schema: checks.Schema, Nodes: nodes, Interrupted: ctx.Err() != nil}
	hang.Judge(&report, endpoint, job.Plan.Prediction.SSHPort)
	return report
}

// work is the job without what judges it.
func (job Job) work() fleet.Job {
	return fleet.Job{
		Head: job.Plan.Head, Prediction: job.Plan.Prediction,
		Remote: job.Remote, Timeout: job.Timeout, Throughput: job.Throughput, Smoke: job.Smoke, Progress: job.Progress,
		SwitchedOff: func(check string) string {
			if job.Policy.SwitchesOff(check) {
				return checks.SwitchedOff
			}
			return ""
		},
		AskedFor: func(check string) bool { return slices.Contains(job.Policy.Only, check) },
	}
}
