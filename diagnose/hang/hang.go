// SPDX-License-Identifier: Apache-2.0

// Package hang says of a job that hangs who is missing from it, by what runs on every node: which
// ranks were told to meet where, which of them have, and what the others wait in.
//
// It refuses to judge the launch itself: what is wrong with a node is for the checks.
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

// Report is one job that hangs, seen from all its nodes.
type Report struct {
	Schema      int              `json:"schema"`
	Version     string           `json:"version"`
	Verdict     checks.Verdict   `json:"verdict"` // pass where nothing is wrong but patience
	ExitCode    int              `json:"exit_code"`
	Seconds     float64          `json:"seconds"`
	Interrupted bool             `json:"interrupted,omitempty"`
	Endpoint    string           `json:"endpoint,omitempty"` // where they meet, as most were told
	Answer      string           `json:"answer"`
	Members     string           `json:"members"` // what is counted: ranks, or launchers where no rank runs yet
	Joined      int              `json:"joined"`
	World       int              `json:"world"`
	Nodes       []Node           `json:"nodes"`
	Waits       []Wait           `json:"waits"`
	Named       []Named          `json:"named"` // the ranks that the answer is about: all, where all have met or nobody knows where they are to
	Findings    []checks.Finding `json:"findings"`
}

// Node is one node and what runs there of launches.
type Node struct {
	facts.Node
	Jobs *facts.Jobs `json:"jobs,omitempty"` // nil when the node could not look
	Lost string      `json:"lost,omitempty"` // why a node that was reached could not
}

// Named is a rank that is there, and that the answer is about.
type Named struct {
	Node   string       `json:"node"`
	Member string       `json:"member"` // as it is called: "rank 5"
	PID    int          `json:"pid"`
	Stack  *facts.Stack `json:"stack,omitempty"` // where its Python is, if that was asked
}

// Wait is what ranks of nodes do at this moment that may well end by itself.
type Wait struct {
	Nodes []string `json:"nodes"`
	What  string   `json:"what"`
}

// Judge finds the job, of which it may be known where it meets, HOST:PORT, and says who is missing.
func Judge(r *Report, endpoint string, sshPort int) {
	host, number := names.SplitEndpoint(endpoint)
	port, _ := strconv.Atoi(number) // 0 for none
	j := findJob(r.Nodes, host, port)
	r.Endpoint, r.Members, r.World = j.endpoint(), j.unit(), j.size()
	findings := unseen(r.Nodes)
	if len(j.members) > 0 {
		findings = slices.Concat(findings, j.told(), j.absent(), j.surplus(), j.halted())
		waiting, waits := j.waiting(findings)
		findings = append(findings, waiting...)
		r.Waits, r.Joined = append(append([]Wait{}, waits...), j.shares()...), j.joined()
		nobodyIsLate := len(findings) == 0 && r.Joined == r.World
		r.Named = j.names(nobodyIsLate || r.Endpoint == "")
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

// answer is the whole of it in one sentence.
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
		if r.World > 0 && r.Joined == r.World {
			parts = append(parts, "all have joined, so the hang comes after the rendezvous")
		}
	}
	return strings.Join(parts, "; ")
}

// ofNodes names some, for a sentence about them.
func ofNodes(names []string) string {
	const most = 3
	if len(names) == 0 {
		return ""
	}
	return text.Some(names, most) + ": "
}

// unseen says of which nodes nothing is known.
func unseen(nodes []Node) (findings []checks.Finding) {
	for i := range nodes {
		node := &nodes[i]
		if node.Jobs == nil {
			findings = append(findings, checks.Unasked(&node.Node, node.Lost))
		}
	}
	return findings
}

// none says that there is no job, where any node could tell.
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
