// SPDX-License-Identifier: Apache-2.0

// Package rendezvous checks one endpoint, HOST:PORT, from what every machine saw at that endpoint.
// It reports whether the endpoint is torch's store, which job's store it is, and which nodes cannot
// reach it.
//
// It does not check the launch around it.
package rendezvous

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"preflight/checks"
	"preflight/checks/compare"
	"preflight/checks/engine"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/diagnose/hang"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
	"preflight/launch"
)

// Report describes one endpoint as seen from the nodes and the launching machine.
type Report struct {
	Schema      int            `json:"schema"`
	Version     string         `json:"version"`
	Endpoint    string         `json:"endpoint"`
	Verdict     checks.Verdict `json:"verdict"` // pass if a store answers on every node, warn if some nodes may reach a different store
	ExitCode    int            `json:"exit_code"`
	Seconds     float64        `json:"seconds"`
	Interrupted bool           `json:"interrupted,omitempty"`
	Here        facts.Endpoint `json:"here"` // the endpoint as seen from the launching machine
	Nodes       []Node         `json:"nodes"`
	// Gathering is the state that the launchers of a run have agreed on in the store. It is nil if
	// no node has read the state.
	Gathering *facts.Gathering `json:"gathering,omitempty"`
	// Roll lists the ranks that have joined by torch's own count, nil if the store has no such
	// count.
	Roll     *facts.Roll      `json:"roll,omitempty"`
	Findings []checks.Finding `json:"findings"`
	Job      *hang.Report     `json:"job,omitempty"` // the job that uses the endpoint, nil if no node shows a process of a job
}

// Node is one node and what it found at the endpoint.
type Node struct {
	facts.Node
	Seen *facts.Endpoint `json:"endpoint,omitempty"` // nil if the node could not test the endpoint
	Lost string          `json:"lost,omitempty"`     // why a node that was reached could not test the endpoint
}

// Judge reports what is wrong with an endpoint and blames as few nodes as possible. A problem that
// all nodes see is the endpoint's fault. A problem that only a few nodes see is the fault of these
// nodes. If there are no nodes, Judge uses what the launching machine sees.
func Judge(r *Report, sshPort int) {
	var fleet facts.Fleet
	var observers []*facts.Node
	seen := map[string]*facts.Endpoint{}
	for i := range r.Nodes {
		node := &r.Nodes[i]
		fleet.Nodes = append(fleet.Nodes, node.Node)
		if node.Seen != nil {
			seen[node.Name] = node.Seen
			observers = append(observers, &node.Node)
		}
	}
	launcher := "deepspeed" // without a job, the launcher is unknown
	if r.Job != nil {
		launcher = r.Job.Launcher
	}
	var findings []checks.Finding
	if len(r.Nodes) == 0 {
		findings = append(findings, atEndpoint(launcher, r.Endpoint, nil, &r.Here)...)
	}
	findings = append(findings, elsewhere(r.Endpoint, observers, seen)...)
	misled := func(n *facts.Node) bool { // the node reaches another machine, so its results do not describe this endpoint
		return slices.ContainsFunc(findings, func(f checks.Finding) bool { return slices.Contains(f.Nodes, n.Name) })
	}
	there := slices.DeleteFunc(slices.Clone(observers), misled)
	if host, port := names.SplitEndpoint(r.Endpoint); len(there) > 1 && names.IsLoopback(host) {
		findings, there = append(findings, ownLoopback(launcher, host, port, there)), nil
	}
	for _, g := range compare.GroupBy(there, func(n *facts.Node) string { return answerOf(seen[n.Name]) }) {
		findings = append(findings, atEndpoint(launcher, r.Endpoint, g.Nodes, seen[g.Nodes[0]])...)
	}
	for _, node := range r.Nodes {
		if node.Seen == nil {
			findings = append(findings, checks.Unasked(&node.Node, node.Lost))
		}
	}
	r.Gathering, r.Roll = gathering(r.Nodes), roll(r.Nodes)
	findings = append(findings, unheard(r.Gathering, r.Nodes)...)
	findings = append(findings, skewed(r.Gathering, r.Nodes)...)
	for i, f := range findings {
		findings[i].Check, findings[i].Verdict = "rendezvous", cmp.Or(f.Verdict, checks.Fail)
	}
	r.Findings = append([]checks.Finding{}, engine.NewAddressing(fleet, launch.Prediction{SSHPort: sshPort}).Fold(findings)...)
	r.conclude()
}

// conclude sets the verdict. The job's verdict replaces the endpoint's if it is worse.
func (r *Report) conclude() {
	r.Verdict, r.ExitCode = checks.Concluded(r.Findings, r.Interrupted)
	if r.Job != nil && (r.Job.ExitCode == 1 || r.ExitCode == 0 && r.Job.ExitCode != 0) {
		r.Verdict, r.ExitCode = r.Job.Verdict, r.Job.ExitCode
	}
}

// ownLoopback reports a loopback address, at which every node finds only itself.
func ownLoopback(launcher, host, port string, nodes []*facts.Node) checks.Finding {
	return checks.Finding{
		Nodes: checks.NamesOf(nodes), Summary: fmt.Sprintf("%s is a loopback address, so each node connects to itself", host),
		Remedy: []fix.Command{hang.MeetAt(launcher, nodes[0].Address, port).Remark("the address at which preflight reached %s", fix.Word(nodes[0].Name))},
	}
}

// answerOf returns a key that is equal for machines that found the same at the endpoint.
func answerOf(e *facts.Endpoint) string {
	return fmt.Sprint(e.Failed, e.Outcome, e.Store, e.Preflight, e.Greeting, e.Failed == facts.HopResolve && e.Error != "")
}

// atEndpoint returns, for a job of a launcher, what is wrong with the endpoint as seen by the given nodes, or nil if a store
// answered.
func atEndpoint(launcher, endpoint string, nodes []string, e *facts.Endpoint) []checks.Finding {
	if e.Preflight {
		return []checks.Finding{{
			Verdict: checks.Unknown, Nodes: nodes,
			Summary: fmt.Sprintf("another preflight uses this port and did not finish within %s: run this again when it has ended", text.Duration(e.Seconds)),
		}}
	}
	if e.Failed == "" {
		return nil
	}
	host, port := names.SplitEndpoint(endpoint)
	address := cmp.Or(e.Address, strings.Join(e.Addresses, " and "), host)
	listening := fix.On("ss -tlnp sport = :%s", fix.Name(port)).At(host)
	firewall := fix.On("sudo iptables -S INPUT").At(host)
	route := fix.On("ip route get %s", fix.Host(cmp.Or(append([]string{e.Address}, e.Addresses...)...)))
	f := checks.Finding{Nodes: nodes, Got: e.Error, Remedy: []fix.Command{listening}}
	switch {
	case e.Failed == facts.HopResolve:
		f.Summary = fmt.Sprintf("the name %s does not resolve", host)
		f.Want = "a name that every node resolves: check its spelling, or add it to DNS or /etc/hosts"
		f.Remedy = []fix.Command{names.LookUp(host)}
		f.WouldSee = fmt.Sprintf("The IPv6 network addresses of (%s, %s) cannot be retrieved (gai error: -2 - Name or service not known)", host, port)
	case e.Outcome == facts.PathRefused:
		f.Summary = fmt.Sprintf("nothing listens on port %s of %s: rank 0 does not listen yet, has died, or uses another address", port, address)
		f.Want = "rank 0's store; read rank 0's log first"
	case e.Outcome == facts.PathDropped:
		f.Summary = fmt.Sprintf("no answer from %s: a firewall drops packets to port %s, or the machine is off", address, port)
		f.Remedy = []fix.Command{firewall, listening}
	case e.Outcome == facts.PathRejected:
		f.Summary = fmt.Sprintf("a firewall or router rejects connections to port %s of %s", port, address)
		f.Remedy = []fix.Command{firewall, route}
	case e.Outcome == facts.PathUnresolved:
		f.Summary = fmt.Sprintf("no machine answers ARP for %s, or for the router on the way: the machine is off, or on another network", address)
		f.Remedy = []fix.Command{fix.On("ip neigh; ip route get %s", fix.Host(cmp.Or(append([]string{e.Address}, e.Addresses...)...)))}
	case e.Outcome == facts.PathUnroutable:
		f.Summary = "there is no route to " + address
		f.Remedy = []fix.Command{route}
	case e.Greeting != "":
		f.Summary = fmt.Sprintf("port %s belongs to another service: it greets with %q", port, e.Greeting)
		f.Remedy = append(f.Remedy, hang.MeetAt(launcher, host, "PORT").Remark("another port, the same in every command"))
	case e.Outcome == facts.PathSilent:
		f.Summary = fmt.Sprintf("port %s of %s accepts connections but sends nothing: rank 0 hangs, or another service listens there", port, address)
		f.Remedy = append(f.Remedy, fix.On("ps -ef").At(host))
	default:
		f.Summary = fmt.Sprintf("the program that listens on port %s of %s is not a torch store", port, address)
	}
	if len(nodes) == 0 {
		for i := range f.Remedy {
			f.Remedy[i] = f.Remedy[i].Locally()
		}
	}
	f.WouldSee = cmp.Or(f.WouldSee, fmt.Sprintf("The client socket has timed out after 600000ms while trying to connect to (%s, %s).", host, port))
	return []checks.Finding{f}
}

// elsewhere finds nodes on which the name resolves to a different address than on most nodes. At
// that address there may be a store of another job. If a store answered, the finding is a warning,
// because one machine may have several addresses.
func elsewhere(endpoint string, nodes []*facts.Node, seen map[string]*facts.Endpoint) []checks.Finding {
	host, _ := names.SplitEndpoint(endpoint)
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	groups := alike(host, nodes, seen)
	verdict := func(names []string) checks.Verdict {
		if slices.ContainsFunc(names, func(name string) bool { return seen[name].Failed != "" }) {
			return checks.Fail
		}
		return checks.Warn
	}
	if len(groups) > 1 && len(groups[0].Nodes) == len(groups[1].Nodes) {
		f := names.SplitName(host, groups)
		f.Verdict = verdict(f.Nodes)
		return []checks.Finding{f}
	}
	var findings []checks.Finding
	for _, g := range groups[min(1, len(groups)):] {
		findings = append(findings, checks.Finding{
			Verdict: verdict(g.Nodes),
			Nodes:   g.Nodes,
			Summary: fmt.Sprintf("%s resolves to a different address than on %s", host, strings.Join(groups[0].Nodes, ", ")),
			Got:     g.Value, Want: groups[0].Value,
			Remedy: []fix.Command{names.LookUp(host), names.Correct(host, groups[0].Value)},
		})
	}
	return findings
}

// alike groups nodes by what a name resolves to, the largest group first. Answers that share an
// address belong to the same group, because on a node without IPv6 the resolver hides the IPv6
// addresses. If a node resolves its own name to a loopback address, this counts as the node's own
// address.
func alike(host string, nodes []*facts.Node, seen map[string]*facts.Endpoint) []compare.Group {
	type answers struct{ addresses, nodes []string }
	var gathered []answers
	for _, node := range nodes {
		addresses := slices.Clone(seen[node.Name].Addresses)
		if isCalled(node, host, nodes, seen) {
			addresses = slices.DeleteFunc(addresses, names.IsLoopback)
		}
		if len(addresses) == 0 {
			continue
		}
		merged := answers{addresses, []string{node.Name}}
		gathered = slices.DeleteFunc(gathered, func(g answers) bool {
			if !names.Overlap(g.addresses, addresses) {
				return false
			}
			merged.addresses, merged.nodes = append(g.addresses, merged.addresses...), append(g.nodes, merged.nodes...)
			return true
		})
		gathered = append(gathered, merged)
	}
	var groups []compare.Group
	for _, g := range gathered {
		groups = append(groups, compare.Group{Value: strings.Join(slices.Compact(slices.Sorted(slices.Values(g.addresses))), " "), Nodes: g.nodes})
	}
	slices.SortStableFunc(groups, func(a, b compare.Group) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return groups
}

// isCalled reports whether a name belongs to the node. Either the hostfile lists the node under
// this name, or on other nodes the name resolves to the address at which preflight reached the
// node.
func isCalled(node *facts.Node, host string, nodes []*facts.Node, seen map[string]*facts.Endpoint) bool {
	if hostfile.Bare(node.Name) == host {
		return true
	}
	return slices.ContainsFunc(nodes, func(other *facts.Node) bool {
		return other != node && slices.Contains(seen[other.Name].Addresses, node.Address)
	})
}
