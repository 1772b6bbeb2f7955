// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/hostfile"
	"preflight/internal/text"
)

// patience is how many seconds a rank may sleep before it connects to the store. While a rank loads
// torch or data, it computes or reads, so a longer sleep is suspicious.
const patience = 60

// waiting reports what each member waits for. Waits that will not end by themselves are findings.
// On nodes that already have a finding, only ended and stopped ranks are reported.
func (j *job) waiting(found []checks.Finding) (findings []checks.Finding, waits []Wait) {
	blamed := map[string]bool{}
	for _, f := range found {
		for _, name := range f.Nodes {
			blamed[name] = true
		}
	}
	first, served := j.first(), j.served()
	if !served && !j.hasRanks() {
		return []checks.Finding{j.unhosted()}, nil
	}
	var all standing
	for _, m := range j.members {
		stuck := cmp.Or(m.stuck(), j.locked(m))
		if m.Restarts > 0 {
			all.add(m, patient("restarted by its launcher, for the %s time %s ago", humanize.Ordinal(m.Restarts), age))
		}
		switch {
		case stuck != nil:
			all.add(m, *stuck)
		case m.Compiles != "" && !blamed[m.node.Name] && (m.Watch == nil || !j.hasJoined(m)):
			all.add(m, patient("compiling %s for %s", m.Compiles, age))
		case j.hasJoined(m), blamed[m.node.Name], j.most.Port == 0:
		case m.Unread != "":
			all.add(m, checks.Finding{Verdict: checks.Unknown,
				Summary: fmt.Sprintf("preflight may not see what it waits for (%s): it runs as %s", m.Unread, m.User),
				Remedy:  []fix.Command{fix.Note("Run preflight as that user or as root.")}})
		case m.has(facts.SocketCalling):
			all.add(m, j.unanswered(m))
		case m.has(facts.SocketHungUp):
			all.add(m, checks.Finding{Summary: "the store closed the connection: rank 0 has ended or was restarted", Remedy: m.pySpy()})
		case m.Busy:
			all.add(m, patient("computing or reading since its start %s ago, not connected yet", age))
		case !served && first != nil && m.JobProcess != first.JobProcess: // the finding about the rank that should serve the store is enough
			all.add(m, patient("waiting for the store, which no process serves"))
		case m.Age < patience && m.Age > patience/4 && served && j.othersMet(m.node):
			all.add(m, patient("started %s ago, not connected yet, or every connection was refused (`%s` shows which)", age, fmt.Sprintf(aboutEndpoint, j.endpoint())))
		case m.Age < patience:
			all.add(m, patient("started %s ago, not connected yet", age))
		case served:
			all.add(m, checks.Finding{Summary: fmt.Sprintf("not connected to %s since its start %s ago, or every connection was refused%s", j.endpoint(), age, m.sleeps()),
				Remedy: append([]fix.Command{j.whoReaches()}, m.pySpy()...)})
		case first != nil:
			all.add(m, checks.Finding{Summary: fmt.Sprintf("has not opened the store on port %d since its start %s ago%s", m.storePort(), age, m.sleeps()), Remedy: m.pySpy()})
		default: // no node shows rank 0; another finding reports this
			all.add(m, patient("waiting for the store, which no process serves"))
		}
	}
	findings, waits = all.sorted()
	for _, one := range all {
		j.named = append(j.named, one.of...)
	}
	switch {
	case j.most.Port == 0 && len(findings) == 0 && !j.met():
		findings = append(findings, j.untold())
	case served && first != nil && first.Apart && j.alone(*first):
		findings = append([]checks.Finding{j.apart(*first)}, findings...)
	}
	return findings, waits
}

// untold reports that no member was given a rendezvous address, so preflight cannot check the
// rendezvous.
func (j *job) untold() checks.Finding {
	return checks.Finding{
		Verdict: checks.Unknown,
		Summary: "no variable of the ranks holds the master address: their script chooses it",
		Remedy:  []fix.Command{fix.Here("preflight rendezvous HOST:PORT -H hostfile   # the address that the script passes to init_process_group")},
	}
}

// alone reports whether members run on other nodes but none of them has joined.
func (j *job) alone(first member) bool {
	others := slices.DeleteFunc(slices.Clone(j.members), func(m member) bool { return m.node == first.node })
	return len(others) > 0 && !slices.ContainsFunc(others, j.hasJoined)
}

// apart reports that rank 0 serves the store in a network that the other nodes do not reach.
func (j *job) apart(first member) checks.Finding {
	return checks.Finding{
		Nodes:   []string{first.node.Name},
		Summary: fmt.Sprintf("%s listens in its own network, as in a container without the host's network: no rank of another node has reached it", first.number()),
		Remedy:  []fix.Command{fix.On("docker run --network=host …").Remark("for the containers of all nodes")},
	}
}

// standing collects what members wait for. Equal waits on one node are merged. Equal harmless waits
// are merged over all nodes.
type standing []waiters

type waiters struct {
	of    []member
	said  checks.Finding
	since float64 // how long the member that has waited longest waits, in seconds
}

// age is a placeholder for the longest wait. Ranks that were started together differ by
// milliseconds, so their texts must not contain the time before they are merged.
const age = "\x00"

// patient returns a wait that ends by itself.
func patient(format string, args ...any) checks.Finding {
	return checks.Finding{Verdict: checks.Pass, Summary: fmt.Sprintf(format, args...)}
}

func (all *standing) add(m member, said checks.Finding) {
	since := m.Age
	if m.Compiles != "" {
		since = m.CompilesFor
	}
	for i := range *all {
		one := &(*all)[i]
		if (one.of[0].node == m.node || said.Verdict == checks.Pass) && one.said.Summary == said.Summary && one.said.Got == said.Got {
			one.of, one.since = append(one.of, m), max(one.since, since)
			return
		}
	}
	*all = append(*all, waiters{[]member{m}, said, since})
}

// sorted separates findings from harmless waits and adds their nodes and members.
func (all standing) sorted() (findings []checks.Finding, waits []Wait) {
	for _, one := range all {
		for _, m := range one.of {
			if !slices.Contains(one.said.Nodes, m.node.Name) {
				one.said.Nodes = append(one.said.Nodes, m.node.Name)
			}
		}
		one.said.Summary = numbers(one.of) + ": " + strings.ReplaceAll(one.said.Summary, age, text.Duration(one.since))
		if one.said.Verdict == checks.Pass {
			waits = append(waits, Wait{one.said.Nodes, one.said.Summary})
		} else {
			findings = append(findings, one.said)
		}
	}
	return findings, waits
}

// numbers returns the names of members, such as "ranks 4, 5".
func numbers(all []member) string {
	if len(all) == 1 {
		return all[0].number()
	}
	var each []string
	for _, m := range all {
		if m.Rank == nil {
			return fmt.Sprintf("%d of its ranks", len(all))
		}
		each = append(each, strconv.Itoa(*m.Rank))
	}
	return "ranks " + text.List(each)
}

// served reports whether the store is open where it should be: with rank 0 or, before ranks exist,
// on the node that considers itself the rendezvous host.
func (j *job) served() bool {
	if first := j.first(); first != nil {
		return serves(first.node, first.storePort())
	}
	return slices.ContainsFunc(j.looked, func(n *Node) bool { return serves(n, j.most.Port) })
}

// unhosted reports that launchers wait for a store that none of them serves. With torchrun's c10d, a
// launcher serves it if the endpoint is its own name or one of the addresses of that name (torch 2.5,
// torch/distributed/elastic/rendezvous/utils.py, _matches_machine_hostname). With torchrun's static
// backend, the launcher with node rank 0 serves it (static_tcp_rendezvous.py).
func (j *job) unhosted() checks.Finding {
	f := checks.Finding{
		Nodes:   text.Map(j.members, func(m member) string { return m.node.Name }),
		Summary: fmt.Sprintf("launchers wait for the rendezvous at %s, which no node serves: ", j.endpoint()),
	}
	at := slices.IndexFunc(j.members, func(m member) bool { return m.NodeRank != nil && *m.NodeRank == 0 })
	switch {
	case j.startedBy() == "torchrun c10d":
		f.Summary += "no node considers itself " + j.most.Address
		f.Remedy = []fix.Command{j.meetAt(hostfile.Bare(j.nodes[0].Name), j.most.Port).Remark("the name that hostname prints there"),
			fix.Here("torchrun --rdzv_conf=is_host=1 …").Remark("only on that node")}
	case at >= 0:
		f.Summary += fmt.Sprintf("the launcher with node rank 0, on %s, has not opened it", j.members[at].node.Name)
		f.Remedy = []fix.Command{j.meetAt(j.members[at].node.Address, j.most.Port).Remark("the same on all nodes, an address of the node with node rank 0")}
	default:
		f.Summary += "no launcher has node rank 0"
		f.Remedy = []fix.Command{j.asNode().Remark("a different number on each node, from 0")}
	}
	return f
}

// unstarted reports that all launchers have met and have started no rank.
func (j *job) unstarted() checks.Finding {
	return checks.Finding{Verdict: checks.Unknown, Nodes: text.Map(j.members, func(m member) string { return m.node.Name }),
		Summary: "all launchers have met, but no rank runs",
		Remedy:  []fix.Command{fix.Note("If this lasts longer than a minute, read the output of the launchers.")}}
}

// unanswered reports a connection to the store that gets no answer, and which step of connecting
// fails.
func (j *job) unanswered(m member) checks.Finding {
	at := slices.IndexFunc(m.Sockets, func(s facts.JobSocket) bool { return s.State == facts.SocketCalling && s.RemotePort == m.storePort() })
	call := m.Sockets[at]
	by := ""
	if call.Interface != "" {
		by = " over " + call.Interface
	}
	f := checks.Finding{
		Summary: fmt.Sprintf("no answer from %s%s: packets to it are dropped, or no machine has this address", text.HostPort(call.Remote, call.RemotePort), by),
		Remedy: []fix.Command{
			j.whoReaches(),
			fix.On("ip route get %s", fix.Host(call.Remote)),
		},
	}
	for _, node := range j.looked {
		for _, port := range node.Jobs.Ports {
			for _, c := range port.Callers {
				if c.Address == call.Address && c.State == facts.SocketHalfOpen && port.Port == call.RemotePort {
					f.Got = "the connection request reaches " + node.Name + ", but the answer does not come back"
				}
			}
		}
	}
	return f
}

// othersMet reports whether all ranks of the other nodes have joined.
func (j *job) othersMet(node *Node) bool {
	return !slices.ContainsFunc(j.members, func(m member) bool { return m.node != node && !j.hasJoined(m) })
}

// whoReaches returns the command that shows which nodes reach the store.
func (j *job) whoReaches() fix.Command {
	return fix.Here(aboutEndpoint, fix.Word(j.endpoint())).Remark("shows which nodes reach the store")
}

// sleeps returns a text that says where a member sleeps in the kernel, or "" if that is unknown.
func (m member) sleeps() string {
	if m.WaitsIn == "" {
		return ""
	}
	return "; it sleeps in " + m.WaitsIn
}

// pySpy returns the command that shows where a process waits.
func (m member) pySpy() []fix.Command {
	return []fix.Command{fix.On("py-spy dump --nonblocking --pid %s", fix.Number(m.PID)).Remark("shows where its Python code waits, without stopping the rank")}
}
