// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"preflight/facts"
	"preflight/hostfile"
)

// member is a rank, or a launcher that has not started any.
type member struct {
	*facts.JobProcess
	node     *Node
	launcher *facts.JobProcess // nil for a rank that none started
}

// job is what belongs together of what runs on the nodes.
type job struct {
	nodes     []Node
	looked    []*Node // those that could
	user      string  // whose it is, "" where nobody tells
	members   []member
	others    []member // of the same user's other jobs
	watched   bool     // whether launchers are seen, so that a rank without has lost its own
	left      []member // ranks of an earlier job, which no launcher watches any more
	strangers []member // ranks and launchers of other users' jobs
	named     []member // those that something is said of
	most      facts.Meeting
}

// findJob finds the members of one job: that which meets at host and port, of 0 that on the most
// nodes.
func findJob(nodes []Node, host string, port int) *job {
	j := &job{nodes: nodes}
	for i := range nodes {
		if nodes[i].Jobs != nil {
			j.looked = append(j.looked, &nodes[i])
		}
	}
	var all []member
	for _, node := range j.looked {
		of := membersOn(node)
		j.watched = j.watched || slices.ContainsFunc(of, func(m member) bool { return m.launcher != nil })
		all = append(all, of...)
	}
	for i, m := range all {
		if port != 0 && m.told().Port == 0 { // its script has chosen it
			chosen := *m.JobProcess
			chosen.Port, chosen.Address = port, cmp.Or(chosen.Address, host)
			all[i].JobProcess = &chosen
		}
	}
	var live []member
	for _, m := range all {
		if j.watched && m.Kind == facts.JobRank && m.launcher == nil {
			j.left = append(j.left, m)
		} else {
			live = append(live, m)
		}
	}
	if len(live) == 0 {
		return j
	}
	together := mostOf(live, func(m member) meetingPlace { return m.place() }, func(p meetingPlace) bool { return port != 0 && p.port == port })
	there := slices.DeleteFunc(slices.Clone(live), func(m member) bool { return m.place() != together })
	j.user = mostOf(there, func(m member) string { return m.User }, nil)
	script := scriptOf(there)
	taken := map[*Node]bool{}
	for _, m := range there {
		taken[m.node] = taken[m.node] || j.owns(m)
	}
	var elsewhere []member
	for _, m := range live {
		// Whoever meets elsewhere is of this job if it has nothing else on that node.
		if j.owns(m) && (m.place() == together || !taken[m.node] && cmp.Or(m.Script, script) == script) {
			j.members = append(j.members, m)
		} else {
			elsewhere = append(elsewhere, m)
		}
	}
	j.adopt(together)
	told := func(field func(facts.Meeting) string) string {
		return mostOf(j.members, func(m member) string { return field(m.told()) }, nil)
	}
	j.most = facts.Meeting{Port: together.port, RunID: together.id, Address: told(address), Nodes: told(nodesTold)}
	j.most.World, _ = strconv.Atoi(told(world)) // "" is 0
	j.part(j.claim(elsewhere, together, script))
	return j
}

// adopt takes those without a launcher for members whose launcher has ended since: they meet at
// the same place, as ranks that nobody else is, and are no older than the job.
func (j *job) adopt(together meetingPlace) {
	running, age := j.ranks(), 0.0
	for _, m := range j.members {
		age = max(age, m.Age)
		if m.launcher != nil {
			age = max(age, m.launcher.Age)
		}
	}
	j.left = slices.DeleteFunc(j.left, func(m member) bool {
		ours := m.place() == together && m.Rank != nil && !running[*m.Rank] && m.Age < age+patience
		if ours {
			j.members = append(j.members, m)
		}
		return ours
	})
}

// claim takes ranks for members that the job lacks and its user runs elsewhere, told another port, or
// somebody else at its own place. Where they have a rank that the job has too, they are another job's.
func (j *job) claim(elsewhere []member, together meetingPlace, script string) (rest []member) {
	type crew struct {
		place meetingPlace
		user  string
	}
	running := j.ranks()
	lacks := func(m member) bool {
		return m.Rank != nil && !running[*m.Rank] && m.World == j.most.World && cmp.Or(m.Script, script) == script &&
			(j.owns(m) || m.place() == together && m.told().Address == j.most.Address)
	}
	apart := map[crew]bool{}
	for _, m := range elsewhere {
		if !lacks(m) {
			apart[crew{m.place(), m.User}] = true
		}
	}
	for _, m := range elsewhere {
		if apart[crew{m.place(), m.User}] {
			rest = append(rest, m)
		} else {
			j.members = append(j.members, m)
		}
	}
	return rest
}

// membersOn are the members of jobs on one node.
func membersOn(node *Node) (all []member) {
	processes := node.Jobs.Processes
	by := func(pid int) *facts.JobProcess {
		at := slices.IndexFunc(processes, func(p facts.JobProcess) bool { return p.PID == pid })
		if at < 0 {
			return nil
		}
		return &processes[at]
	}
	for i := range processes {
		p := &processes[i]
		started := slices.ContainsFunc(processes, func(other facts.JobProcess) bool { return other.Launcher == p.PID })
		switch {
		case p.Kind == facts.JobRank:
			all = append(all, member{p, node, by(p.Launcher)})
		case p.Kind == facts.JobLauncher && !started && p.Program != "slurmstepd": // Slurm's is there for any command
			all = append(all, member{p, node, p})
		}
	}
	return all
}

// meetingPlace is what tells jobs apart.
type meetingPlace struct {
	port int
	id   string
}

// told is what a member was told, by the launcher where the ranks are told another place once
// the launchers have met.
func (m member) told() facts.Meeting {
	told := m.Meeting
	if m.launcher != nil {
		if elastic(m.launcher.Meeting) {
			told.Address, told.Port = m.launcher.Address, m.launcher.Port
		}
		told.Nodes = m.launcher.Nodes
		told.RunID = cmp.Or(m.launcher.RunID, told.RunID)
		told.Address, told.Port = cmp.Or(told.Address, m.launcher.Address), cmp.Or(told.Port, m.launcher.Port)
	}
	return told
}

// elastic is whether launchers meet before they start ranks: torchrun's static backend does not
// (torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py).
func elastic(m facts.Meeting) bool { return m.Backend != "" && m.Backend != "static" }

func (m member) place() meetingPlace {
	told := m.told()
	return meetingPlace{told.Port, told.RunID}
}

// number is how a person calls it.
func (m member) number() string {
	switch {
	case m.Kind != facts.JobRank:
		return m.Program
	case m.Rank != nil:
		return "rank " + strconv.Itoa(*m.Rank)
	case m.LocalRank != nil:
		return "local rank " + strconv.Itoa(*m.LocalRank)
	}
	return "a rank"
}

// mostOf is the value that the most nodes have, of several the first node's; a preferred one
// goes before all. Members that were told nothing have no say.
func mostOf[T comparable](members []member, value func(member) T, preferred func(T) bool) (most T) {
	var none T
	nodes := map[T]map[*Node]bool{}
	for _, m := range members {
		v := value(m)
		if nodes[v] == nil {
			nodes[v] = map[*Node]bool{}
		}
		nodes[v][m.node] = true
	}
	best := -1
	for _, m := range members {
		v := value(m)
		weight := len(nodes[v])
		switch {
		case v == none:
			weight = 0
		case preferred != nil && preferred(v):
			weight = len(members) + 1
		}
		if weight > best {
			best, most = weight, v
		}
	}
	return most
}

// owns is whether a process is of the job's user, as far as anybody tells.
func (j *job) owns(m member) bool { return j.user == "" || m.User == "" || m.User == j.user }

// scriptOf is what members train with, "" where none says.
func scriptOf(members []member) string {
	for _, m := range members {
		if m.Script != "" {
			return m.Script
		}
	}
	return ""
}

func address(m facts.Meeting) string   { return m.Address }
func nodesTold(m facts.Meeting) string { return m.Nodes }
func runID(m facts.Meeting) string     { return m.RunID }
func portTold(m facts.Meeting) string  { return counted(m.Port) }
func world(m facts.Meeting) string     { return counted(m.World) }

func counted(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func (j *job) endpoint() string {
	if j.most.Port == 0 {
		return ""
	}
	return hostPort(j.most.Address, j.most.Port)
}

// hasRanks is whether any rank runs; without, launchers are waited for.
func (j *job) hasRanks() bool {
	return slices.ContainsFunc(j.members, func(m member) bool { return m.Kind == facts.JobRank })
}

func (j *job) unit() string {
	if j.hasRanks() || len(j.members) == 0 {
		return "ranks"
	}
	return "launchers"
}

// size is how many members there will be, as far as they know.
func (j *job) size() int {
	if j.hasRanks() {
		return j.most.World
	}
	least, _, _ := strings.Cut(j.most.Nodes, ":")
	if n, err := strconv.Atoi(least); err == nil {
		return n
	}
	if len(j.members) == 0 {
		return 0
	}
	return len(j.nodes)
}

// ranks are the numbers of those that run.
func (j *job) ranks() map[int]bool {
	running := map[int]bool{}
	for _, m := range j.members {
		if m.Rank != nil {
			running[*m.Rank] = true
		}
	}
	return running
}

// names are the ranks that something is said of and that are there to be asked, or all.
func (j *job) names(all bool) []Named {
	named := []Named{}
	of := j.named
	if all {
		of = j.members
	}
	for _, m := range of {
		one := Named{Node: m.node.Name, Member: m.number(), PID: m.PID}
		if m.Kind == facts.JobRank && m.State != "Z" && !slices.Contains(named, one) {
			named = append(named, one)
		}
	}
	return named
}

// first is rank 0, nil where it is not seen.
func (j *job) first() *member {
	at := slices.IndexFunc(j.members, func(m member) bool { return m.Rank != nil && *m.Rank == 0 })
	if at < 0 {
		return nil
	}
	return &j.members[at]
}

// on are the members on a node.
func (j *job) on(node *Node) (all []member) {
	for _, m := range j.members {
		if m.node == node {
			all = append(all, m)
		}
	}
	return all
}

// meets is the port at which a member calls the others by itself.
func (m member) meets() int { return cmp.Or(m.Port, m.told().Port) }

// hasMet is whether a member is connected to the store.
func (j *job) hasMet(m member) bool {
	if m.has(facts.SocketEstablished) {
		return true
	}
	return m.Unread != "" && j.called(m.node) >= len(j.on(m.node))
}

// has is whether a member's own call to the store is in this state.
func (m member) has(state string) bool {
	return slices.ContainsFunc(m.Sockets, func(s facts.JobSocket) bool { return s.State == state && s.RemotePort == m.meets() })
}

// listens is whether a member itself takes calls at a port.
func (m member) listens(port int) bool {
	return slices.ContainsFunc(m.Sockets, func(s facts.JobSocket) bool { return s.State == facts.SocketListening && s.Port == port })
}

// called is how many connections whoever serves the store has from a node.
func (j *job) called(from *Node) (count int) {
	for _, node := range j.looked {
		for _, port := range node.Jobs.Ports {
			for _, c := range port.Callers {
				if _, own := from.Jobs.Addresses[c.Address]; own && port.Listening && port.Port == j.most.Port && c.State == facts.SocketEstablished {
					count += c.Count
				}
			}
		}
	}
	return count
}

// joined counts those of the job that have met: a rank that runs twice once, and none of a number
// that the job does not have.
func (j *job) joined() (count int) {
	met := map[int]bool{}
	for _, m := range j.members {
		switch {
		case !j.hasMet(m), m.Rank != nil && (met[*m.Rank] || j.most.World > 0 && *m.Rank >= j.most.World), m.Kind == facts.JobLauncher && j.hasRanks():
			continue
		case m.Rank != nil:
			met[*m.Rank] = true
		}
		count++
	}
	return count
}

// aboutEndpoint is the command that says who gets to a store.
const aboutEndpoint = "preflight rendezvous %s -H hostfile"

// serves is whether somebody takes calls at the port on a node.
func serves(node *Node, port int) bool {
	return slices.ContainsFunc(node.Jobs.Ports, func(p facts.JobPort) bool { return p.Port == port && p.Listening })
}

// owners are the nodes that have an address, and each's interface; none for a name but that of the
// loopback.
func (j *job) owners(address string) map[string]string {
	if address == "localhost" {
		address = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(address)
	owned := map[string]string{}
	for _, node := range j.looked {
		if by, has := node.Jobs.Addresses[ip.String()]; has && err == nil {
			owned[node.Name] = by
		}
	}
	return owned
}

// alike is whether two addresses are those of one node: its name, or one that no other has.
func (j *job) alike(one, other string) bool {
	named := func(address string) string {
		for _, node := range j.nodes {
			if address == node.Name || address == hostfile.Bare(node.Name) || address == node.Address {
				return node.Name
			}
		}
		owners := slices.Collect(maps.Keys(j.owners(address)))
		if len(owners) != 1 {
			return address
		}
		return owners[0]
	}
	return named(one) == named(other)
}

// hostPort is an endpoint as a rank is given it.
func hostPort(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}
