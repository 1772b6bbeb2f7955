// SPDX-License-Identifier: Apache-2.0

// Package hang finds the missing members of a hanging job. It compares the processes of all nodes:
// which master address each rank was given, which ranks have joined, and what the other ranks wait
// for.
//
// It does not check the launch itself. The checks find problems of a node.
package hang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/engine"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/facts"
	"preflight/internal/text"
	"preflight/launch"
)

// Report describes one hanging job, seen from all its nodes.
type Report struct {
	Schema      int            `json:"schema"`
	Version     string         `json:"version"`
	Verdict     checks.Verdict `json:"verdict"` // pass if nothing is wrong and the job may only be slow
	ExitCode    int            `json:"exit_code"`
	Seconds     float64        `json:"seconds"`
	Interrupted bool           `json:"interrupted,omitempty"`
	Endpoint    string         `json:"endpoint,omitempty"` // the rendezvous address that most members were given
	// Launcher is the program with which a person started the job: "deepspeed", "torchrun", "torchrun
	// c10d" (with an elastic rendezvous), "accelerate", "mpirun", "mpiexec" or "srun". It is "" if the
	// ranks have no launcher or if there is no job.
	Launcher string           `json:"launcher,omitempty"`
	Answer   string           `json:"answer"`
	Members  string           `json:"members"` // what Joined and World count: ranks, or launchers if no rank runs yet
	Joined   int              `json:"joined"`
	World    int              `json:"world"`
	Nodes    []Node           `json:"nodes"`
	Waits    []Wait           `json:"waits"`
	Named    []Named          `json:"named"` // the ranks that the answer is about; all ranks if all have joined or the address is unknown
	Findings []checks.Finding `json:"findings"`
	// Motion says what the job does if all its ranks have met and no fault was found. Still reports
	// whether they have met and nothing moves.
	Motion string `json:"-"`
	Still  bool   `json:"-"`
}

// Node is one node and the processes of launches on it.
type Node struct {
	facts.Node
	Jobs *facts.Jobs `json:"jobs,omitempty"` // nil if the node could not list its processes
	Lost string      `json:"lost,omitempty"` // why a node that was reached could not list its processes
	// Stacks holds the Python stacks of the ranks, as far as they were read.
	Stacks []facts.Stack `json:"-"`
}

// Named describes a running rank that the answer is about.
type Named struct {
	Node   string       `json:"node"`
	Member string       `json:"member"` // its name, such as "rank 5"
	PID    int          `json:"pid"`
	Stack  *facts.Stack `json:"stack,omitempty"` // its Python stack, nil if it was not requested
}

// Wait describes what ranks currently wait for. The wait may end by itself.
type Wait struct {
	Nodes []string `json:"nodes"`
	What  string   `json:"what"`
}

// Judge finds the job and reports its missing members. endpoint is the job's HOST:PORT, or "" if it
// is unknown.
func Judge(r *Report, endpoint string, sshPort int) {
	host, number := names.SplitEndpoint(endpoint)
	port, _ := strconv.Atoi(number) // 0 if there is no port
	j := findJob(r.Nodes, host, port)
	r.Endpoint, r.Members, r.World, r.Launcher = j.endpoint(), j.unit(), j.size(), j.startedBy()
	findings := unseen(r.Nodes)
	if len(j.members) > 0 {
		findings = slices.Concat(findings, j.mismatches(), j.absent(), j.surplus(), j.halted())
		waiting, waits := j.waiting(findings)
		findings = append(findings, waiting...)
		r.Waits, r.Joined = append(append([]Wait{}, waits...), j.shares()...), j.joined()
		if j.hasRanks() { // the launchers have been judged
			j.members = slices.DeleteFunc(slices.Clone(j.members), func(m member) bool { return m.Kind != facts.JobRank })
		}
		allOnTime := !failed(findings) && (r.Joined == r.World || j.met())
		switch {
		case !allOnTime:
		case !j.hasRanks():
			findings = append(findings, j.unstarted())
		case !j.sampled():
			r.Motion = "all have joined, so the hang comes after the rendezvous"
		default:
			if r.Motion = j.moves(); r.Motion == "" {
				still, told := j.still()
				findings, r.Waits, r.Still = append(findings, still...), append(r.Waits, told...), true
			}
		}
		r.Named = j.names(allOnTime || r.Endpoint == "")
	} else {
		findings = append(findings, none(r.Nodes)...)
		r.Waits, r.Named = []Wait{}, []Named{}
	}
	var fleet facts.Fleet
	for i := range r.Nodes {
		fleet.Nodes = append(fleet.Nodes, r.Nodes[i].Node)
	}
	for i, f := range findings {
		findings[i].Check, findings[i].Verdict = "hang", cmp.Or(f.Verdict, checks.Fail)
	}
	r.Findings = append([]checks.Finding{}, engine.NewAddressing(fleet, launch.Prediction{SSHPort: sshPort}).Fold(findings)...)
	r.Verdict, r.ExitCode = checks.Concluded(r.Findings, r.Interrupted)
	r.Answer = r.answer()
}

// answer returns the whole result as one sentence.
func (r *Report) answer() string {
	var parts []string
	switch {
	case r.World > 0 && r.Endpoint == "":
		parts = append(parts, fmt.Sprintf("a job of %d %s", r.World, r.Members))
	case r.World > 0:
		parts = append(parts, fmt.Sprintf("%d of %d %s have joined at %s", r.Joined, r.World, r.Members, r.Endpoint))
	}
	for _, f := range r.Findings {
		parts = append(parts, ofNodes(f.Nodes)+f.Summary)
	}
	if len(r.Findings) == 0 {
		for _, w := range r.Waits {
			parts = append(parts, ofNodes(w.Nodes)+w.What)
		}
		if r.Motion != "" {
			parts = append(parts, r.Motion)
		}
	}
	return strings.Join(parts, "; ")
}

// failed reports whether a finding is a failure. In this package, a finding without a verdict is one.
func failed(findings []checks.Finding) bool {
	return slices.ContainsFunc(findings, func(f checks.Finding) bool { return cmp.Or(f.Verdict, checks.Fail) == checks.Fail })
}

// ofNodes returns the beginning of a sentence about the nodes with these names.
func ofNodes(names []string) string {
	const most = 3
	if len(names) == 0 {
		return ""
	}
	return text.Some(names, most) + ": "
}

// unseen returns a finding for each node about which nothing is known.
func unseen(nodes []Node) (findings []checks.Finding) {
	for i := range nodes {
		node := &nodes[i]
		if node.Jobs == nil {
			findings = append(findings, checks.Unasked(&node.Node, node.Lost))
		}
	}
	return findings
}

// none reports that there is no job. It reports nothing if no node could list its processes.
func none(nodes []Node) []checks.Finding {
	var looked []string
	for _, node := range nodes {
		if node.Jobs != nil {
			looked = append(looked, node.Name)
		}
	}
	if looked == nil {
		return nil
	}
	return []checks.Finding{{
		Verdict: checks.Unknown, Nodes: looked,
		Summary: "no rank or launcher of a job is visible there",
		Remedy:  []fix.Command{fix.On("ps -ef").Remark("if a job does run there: shows its user")},
	}}
}
