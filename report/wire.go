// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/diagnose/hang"
	"preflight/diagnose/rendezvous"
	"preflight/facts"
	"preflight/internal/text"
)

// slowestNamed is the maximum number of slow links that a line names.
const slowestNamed = 3

// wire prints the results of the connections between the nodes: how many connections were answered,
// and when each node joined the rendezvous.
func (p *page) wire(r checks.Report) {
	p.list("mesh", MeshWords(r.Nodes, func(node *facts.Node) *facts.Mesh { return node.Mesh }))
	p.rendezvous(r.Nodes)
}

type call struct {
	from, to string
	seconds  float64
}

// MeshWords describes a mesh drill in one sentence. It returns "" if no node connected to another.
// part returns a node's part in the drill.
func MeshWords(nodes []facts.Node, part func(*facts.Node) *facts.Mesh) string {
	var answered []call
	called := 0
	var interfaces []string
	for i := range nodes {
		node, mesh := &nodes[i], part(&nodes[i])
		if mesh == nil || mesh.Error != "" {
			continue
		}
		if !slices.Contains(interfaces, mesh.Interface) {
			interfaces = append(interfaces, mesh.Interface)
		}
		for peer, seconds := range mesh.Reached {
			if peer != node.Name {
				answered = append(answered, call{node.Name, peer, seconds})
			}
		}
		for _, path := range mesh.Failed {
			if path.Peer != node.Name {
				called++
			}
		}
	}
	called += len(answered)
	if called == 0 {
		return ""
	}
	line := fmt.Sprintf("%d of %s answered on %s", len(answered), text.Plural(called, "call"), strings.Join(interfaces, ", "))
	if pairs := len(nodes) * (len(nodes) - 1); called < pairs {
		line += fmt.Sprintf(" (a full mesh has %d)", pairs)
	}
	if len(answered) > 0 {
		slowest := slices.MaxFunc(answered, func(a, b call) int {
			return cmp.Or(cmp.Compare(a.seconds, b.seconds), cmp.Compare(b.from+" "+b.to, a.from+" "+a.to))
		})
		line += fmt.Sprintf(", slowest %s → %s in %s", slowest.from, slowest.to, text.Duration(slowest.seconds))
	}
	return line
}

// Attendance is a node's part in a rendezvous drill.
type Attendance struct {
	Node string
	*facts.Rendezvous
}

// Meeting is the rendezvous drill of a fleet.
type Meeting struct {
	Held           bool
	Endpoint       string
	Joined, Failed []Attendance
	Words          string // "6 of 8 nodes joined, complete after 4 ms"
}

// MeetingOf returns the rendezvous drill of the nodes. part returns a node's part in the drill, or
// nil if the node had none.
func MeetingOf(nodes []facts.Node, part func(*facts.Node) *facts.Rendezvous) (m Meeting) {
	together, waited, complete := 0.0, 0.0, 0
	for i := range nodes {
		r := part(&nodes[i])
		if r == nil {
			continue
		}
		m.Held, m.Endpoint = true, r.Endpoint
		waited = max(waited, r.Waited)
		if r.Joined > 0 {
			m.Joined = append(m.Joined, Attendance{nodes[i].Name, r})
		}
		if r.Failed != "" {
			m.Failed = append(m.Failed, Attendance{nodes[i].Name, r})
			continue
		}
		complete++
		together = max(together, r.Complete)
	}
	m.Words = fmt.Sprintf("%d of %s joined", len(m.Joined), text.Plural(len(nodes), "node"))
	if complete > 0 && complete == len(nodes) {
		m.Words += ", complete after " + text.Duration(together)
	}
	if waited > 0 && len(m.Joined) > 0 {
		m.Words += fmt.Sprintf(", after waiting %s for another preflight to release the port", text.Duration(waited))
	}
	return m
}

func (p *page) rendezvous(nodes []facts.Node) {
	m := MeetingOf(nodes, func(node *facts.Node) *facts.Rendezvous { return node.Rendezvous })
	if !m.Held {
		return
	}
	parts := text.Map(m.Joined, func(a Attendance) string { return a.Node + " " + text.Duration(a.Joined) })
	text := m.Endpoint + ": " + m.Words
	if parts != nil {
		text += ": " + strings.Join(parts, ", ")
	}
	p.list("rendezvous", text)
}

func (p *page) throughput(nodes []facts.Node) {
	sent := slices.DeleteFunc(slices.Clone(nodes), func(node facts.Node) bool { return node.Throughput == nil || node.Throughput.Error != "" })
	if len(sent) > 2*slowestNamed && !p.style.Verbose {
		slices.SortStableFunc(sent, func(a, b facts.Node) int { return cmp.Compare(a.Throughput.Rate, b.Throughput.Rate) })
		sent = sent[:slowestNamed]
	}
	rates := strings.Join(text.Map(sent, func(node facts.Node) string {
		return fmt.Sprintf("%s → %s %s", node.Name, node.Throughput.Peer, text.BitRate(node.Throughput.Rate))
	}), ", ")
	if slices.ContainsFunc(sent, func(node facts.Node) bool { return node.Throughput.Shared }) {
		rates += " (another preflight was measuring at the same time)"
	}
	p.list(labelThroughput, rates)
}

// wireChecks lists the checks whose findings the advice can solve.
var wireChecks = []string{"nic-choice", "nic-same", "node-mesh", "master-address", "rendezvous", "env-sane", "host-names"}

// advice prints the network settings that were proven to work. It prints them if a check in
// wireChecks found a problem, and always in verbose mode.
func (p *page) advice(r checks.Report) {
	concerns := slices.ContainsFunc(r.Findings, func(f checks.Finding) bool { return slices.Contains(wireChecks, f.Check) })
	list := func(heading string, settings []checks.AdvisedEnv, args []string) {
		if len(settings)+len(args) == 0 {
			return
		}
		p.line("\n%s", p.faint(heading))
		for _, env := range settings {
			p.line("  %s", text.Escape(env.Name+"="+env.Value))
			p.wrapped("      ", env.Why)
		}
		for _, arg := range args {
			p.line("  %s %s …", r.Advice.Program, text.Escape(arg))
		}
	}
	if concerns || p.style.Verbose {
		list(headingProven, r.Advice.Env, r.Advice.Args)
		if len(r.Advice.Refused) > 0 {
			p.line("\n%s", p.faint(headingRefused))
		}
		for _, env := range r.Advice.Refused {
			p.line("  %s", env.Name)
			p.wrapped("      ", env.Why)
		}
	}
	if p.style.Verbose {
		list(headingDerived, r.Advice.Seen, nil)
	}
}

// EndpointText writes for a person what the launching machine and the nodes see at a rendezvous
// endpoint, and how to solve problems.
func EndpointText(w io.Writer, r rendezvous.Report, style Style) error {
	p := &page{Words: Words{fleet: len(r.Nodes)}, style: style}
	headline := map[checks.Verdict]string{
		checks.Pass:    "a store answers at ",
		checks.Warn:    "a store answers, but perhaps not the same one on every node, at ",
		checks.Fail:    "this rendezvous cannot work: ",
		checks.Unknown: "unknown for some nodes: ",
	}[r.Verdict]
	fails := func(f checks.Finding) bool { return f.Verdict == checks.Fail }
	if r.Verdict == checks.Fail && !slices.ContainsFunc(r.Findings, fails) { // the job fails
		headline = "a store answers, but the job hangs at "
	}
	p.line("%s  %s%s", p.colored(r.Verdict, Word(r.Verdict)), headline, text.Escape(r.Endpoint))
	p.line("")
	p.list("from here", sighted(r.Here))
	var seen []alike
	for _, node := range r.Nodes {
		if node.Seen != nil {
			seen = add(seen, sighted(*node.Seen), node.Name)
		}
	}
	for _, one := range seen {
		p.list(p.Nodes(one.nodes), one.text)
	}
	if r.Gathering != nil {
		p.list("run "+text.Escape(r.Gathering.RunID), gathered(*r.Gathering))
	}
	if r.Roll != nil {
		p.list("store count", rolled(*r.Roll))
	}
	for _, f := range r.Findings {
		p.finding("", f)
	}
	if r.Job != nil {
		p.line("")
		p.hang(*r.Job)
	}
	return p.writeTo(w)
}

// HangText writes for a person which ranks of a hanging job are missing, and how to solve the
// problem.
func HangText(w io.Writer, r hang.Report, style Style) error {
	p := &page{Words: Words{fleet: len(r.Nodes)}, style: style}
	p.hang(r)
	return p.writeTo(w)
}

func (p *page) hang(r hang.Report) {
	for i, line := range p.split(r.Answer, 6) {
		if i == 0 {
			p.line("%s  %s", p.colored(r.Verdict, Word(r.Verdict)), line)
		} else {
			p.line("      %s", line)
		}
	}
	if len(r.Waits) > 0 {
		p.line("")
	}
	left := slices.DeleteFunc(slices.Clone(r.Named), func(n hang.Named) bool { return n.Stack == nil })
	for _, wait := range r.Waits {
		p.list(p.Nodes(wait.Nodes), wait.What)
		left = p.stacks(left, wait.Nodes)
	}
	for _, f := range r.Findings {
		p.finding("", f)
		left = p.stacks(left, f.Nodes)
	}
	for len(left) > 0 {
		left = p.stacks(left, []string{left[0].Node})
	}
}

// stacks prints the Python stacks of the ranks on some nodes. It prints equal stacks once and
// returns the ranks on other nodes.
func (p *page) stacks(all []hang.Named, nodes []string) (left []hang.Named) {
	var stacks []alike
	for _, n := range all {
		if !slices.Contains(nodes, n.Node) {
			left = append(left, n)
			continue
		}
		stack := cmp.Or(strings.Join(n.Stack.Lines, "\n"), n.Stack.Problem, "py-spy printed nothing")
		stacks = add(stacks, stack, fmt.Sprintf("%s on %s (pid %d)", n.Member, n.Node, n.PID))
	}
	for _, stack := range stacks {
		p.field("stack", strings.Join(stack.nodes, ", "))
		for line := range strings.SplitSeq(stack.text, "\n") {
			p.labelled("", text.Escape(line))
		}
	}
	return left
}

// gathered describes the rendezvous state on which launchers agreed.
func gathered(g facts.Gathering) string {
	names := func(all []facts.Gatherer) string {
		return strings.Join(text.Map(all, func(one facts.Gatherer) string {
			age := ""
			if one.Silent != nil {
				age = ", last heard " + text.Duration(max(0, *one.Silent)) + " ago" // a negative age comes from a clock that is ahead
			}
			return fmt.Sprintf("%s (pid %d%s)", one.Address, one.PID, age)
		}), ", ")
	}
	text := fmt.Sprintf("round %d, %s joined: %s", g.Round, text.Plural(len(g.Joined), "launcher"), names(g.Joined))
	switch {
	case g.Closed:
		text += "; closed: no launcher can join any more"
	case g.Complete:
		text += "; complete: the ranks have been started"
	}
	if len(g.Waiting) > 0 {
		text += "; waiting for the next round: " + names(g.Waiting)
	}
	if len(g.Spare) > 0 {
		text += "; surplus: " + names(g.Spare)
	}
	return text
}

// rolled describes which clients have connected to a store.
func rolled(r facts.Roll) string {
	var parts []string
	if r.Joined != nil {
		parts = append(parts, text.Plural(*r.Joined, "client")+" joined")
	}
	if r.Barrier != nil {
		parts = append(parts, text.Plural(*r.Barrier, "rank")+" at the barrier of init_process_group")
	}
	if len(r.Came) > 0 {
		parts = append(parts, "torchrun joined on "+numbered(r.Came))
	}
	if len(r.Absent) > 0 {
		parts = append(parts, "missing: "+numbered(r.Absent))
	}
	return strings.Join(parts, "; ")
}

// numbered returns nodes by their numbers in a job.
func numbered(nodes []int) string {
	if len(nodes) == 1 {
		return fmt.Sprintf("node %d", nodes[0])
	}
	return "nodes " + text.List(text.Map(nodes, strconv.Itoa))
}

func sighted(e facts.Endpoint) string {
	way := ""
	switch {
	case e.Address == "" && len(e.Addresses) > 0:
		way = " at " + strings.Join(e.Addresses, ", ")
	case e.Address != "":
		way = fmt.Sprintf(" at %s through %s", e.Address, cmp.Or(e.Interface, "an unknown interface"))
	}
	if e.Waited > 0 {
		way += fmt.Sprintf(", after waiting %s for another preflight to release the port", text.Duration(e.Waited))
	}
	switch {
	case e.Preflight:
		return "the store of another preflight" + way
	case e.Store != "":
		return fmt.Sprintf("a store of torch %s with %s%s", e.Store, text.Plural(int(e.Keys), "key"), way)
	case e.Greeting != "":
		return fmt.Sprintf("%q%s", e.Greeting, way)
	case e.Failed == facts.HopResolve:
		return "does not resolve: " + e.Error
	}
	return fmt.Sprintf("%s (%s)%s", cmp.Or(string(e.Outcome), "no store"), e.Error, way)
}
