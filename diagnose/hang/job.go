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
	"preflight/internal/text"
)

// member is a rank, or a launcher that has not started any rank.
type member struct {
	*facts.JobProcess
	node     *Node
	launcher *facts.JobProcess // nil for a rank without a launcher
}

// job holds the processes of one job on all nodes.
type job struct {
	nodes     []Node
	looked    []*Node // the nodes that could list their processes
	user      string  // the job's user, "" if unknown
	members   []member
	others    []member // members of the same user's other jobs
	watched   bool     // some launchers are visible, so a rank without a launcher has lost its launcher
	left      []member // ranks of an earlier job, without a launcher
	strangers []member // ranks and launchers of other users' jobs
	named     []member // the members that a finding is about
	most      facts.Meeting
}

// findJob finds the members of the job whose rendezvous is at host and port. If port is 0, it finds
// the members of the job on the most nodes.
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
		if port != 0 && m.given().Port == 0 { // the training script has chosen the port
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
		// A member with another rendezvous address belongs to the job if the job has nothing else
		// on that node.
		if j.owns(m) && (m.place() == together || !taken[m.node] && cmp.Or(m.Script, script) == script) {
			j.members = append(j.members, m)
		} else {
			elsewhere = append(elsewhere, m)
		}
	}
	j.adopt(together)
	told := func(field func(facts.Meeting) string) string {
		return mostOf(j.members, func(m member) string { return field(m.given()) }, nil)
	}
	j.most = facts.Meeting{Port: together.port, RunID: together.id, Address: told(address), Nodes: told(nodesTold)}
	j.most.World, _ = strconv.Atoi(told(world)) // "" becomes 0
	j.part(j.claim(elsewhere, together, script))
	return j
}

// adopt adds members whose launcher has ended. Such members have the same rendezvous as the job and
// ranks that no other member has, and they are not older than the job.
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

// claim adds ranks that the job lacks: ranks of the job's user with another port, or ranks of
// another user with the same rendezvous. If a group of such ranks contains a rank that the job
// already has, the group is a separate job.
func (j *job) claim(elsewhere []member, together meetingPlace, script string) (rest []member) {
	type crew struct {
		place meetingPlace
		user  string
	}
	running := j.ranks()
	lacks := func(m member) bool {
		return m.Rank != nil && !running[*m.Rank] && m.World == j.most.World && cmp.Or(m.Script, script) == script &&
			(j.owns(m) || m.place() == together && m.given().Address == j.most.Address)
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

// membersOn returns the members of jobs on one node.
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
		case p.Kind == facts.JobLauncher && !started && p.Program != "slurmstepd": // Slurm runs slurmstepd for every command
			all = append(all, member{p, node, p})
		}
	}
	return all
}

// meetingPlace identifies a job by its rendezvous.
type meetingPlace struct {
	port int
	id   string
}

// given returns the settings that a member was started with. An elastic launcher gives its ranks
// another address after its own rendezvous, so for these ranks given returns the launcher's
// settings.
func (m member) given() facts.Meeting {
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

// elastic reports whether launchers hold a rendezvous before they start ranks. torchrun's static
// backend does not hold one (torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py).
func elastic(m facts.Meeting) bool { return m.Backend != "" && m.Backend != "static" }

func (m member) place() meetingPlace {
	told := m.given()
	return meetingPlace{told.Port, told.RunID}
}

// number returns the member's name, such as "rank 5".
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

// mostOf returns the value on the most nodes. If several values are equally frequent, it returns
// the first node's value. A preferred value wins over all other values. Members without a value do
// not count.
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

// owns reports whether a process belongs to the job's user. It returns true if either user is
// unknown.
func (j *job) owns(m member) bool { return j.user == "" || m.User == "" || m.User == j.user }

// scriptOf returns the training script of the members, "" if unknown.
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
	return text.HostPort(j.most.Address, j.most.Port)
}

// hasRanks reports whether any rank runs. If no rank runs, the members are launchers.
func (j *job) hasRanks() bool {
	return slices.ContainsFunc(j.members, func(m member) bool { return m.Kind == facts.JobRank })
}

func (j *job) unit() string {
	if j.hasRanks() || len(j.members) == 0 {
		return "ranks"
	}
	return "launchers"
}

// size returns how many members the job will have, as far as the members know.
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

// ranks returns the numbers of the running ranks.
func (j *job) ranks() map[int]bool {
	running := map[int]bool{}
	for _, m := range j.members {
		if m.Rank != nil {
			running[*m.Rank] = true
		}
	}
	return running
}

// names returns the running ranks that findings are about, or all running ranks.
func (j *job) names(all bool) []Named {
	named := []Named{}
	of := j.named
	if all {
		of = j.members
	}
	for _, m := range of {
		same := func(n Named) bool { return n.Node == m.node.Name && n.PID == m.PID }
		if m.Kind == facts.JobRank && m.State != "Z" && !slices.ContainsFunc(named, same) {
			named = append(named, Named{Node: m.node.Name, Member: m.number(), PID: m.PID, Stack: m.stack()})
		}
	}
	return named
}

// first returns rank 0, or nil if no node shows rank 0.
func (j *job) first() *member {
	at := slices.IndexFunc(j.members, func(m member) bool { return m.Rank != nil && *m.Rank == 0 })
	if at < 0 {
		return nil
	}
	return &j.members[at]
}

// on returns the members on a node.
func (j *job) on(node *Node) (all []member) {
	for _, m := range j.members {
		if m.node == node {
			all = append(all, m)
		}
	}
	return all
}

// storePort returns the port at which a member connects to the store.
func (m member) storePort() int { return cmp.Or(m.Port, m.given().Port) }

// hasJoined reports whether a member is connected to the store.
func (j *job) hasJoined(m member) bool {
	if m.has(facts.SocketEstablished) {
		return true
	}
	return m.Unread != "" && j.callers(m.node) >= len(j.on(m.node))
}

// has reports whether a member's own connection to the store is in the given state.
func (m member) has(state string) bool {
	return slices.ContainsFunc(m.Sockets, func(s facts.JobSocket) bool { return s.State == state && s.RemotePort == m.storePort() })
}

// listens reports whether a member itself listens on a port.
func (m member) listens(port int) bool {
	return slices.ContainsFunc(m.Sockets, func(s facts.JobSocket) bool { return s.State == facts.SocketListening && s.Port == port })
}

// callers returns the number of connections from a node to the process that serves the store.
func (j *job) callers(from *Node) (count int) {
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

// joined counts the members that have joined. A duplicate rank counts once, and a rank beyond the
// world size does not count.
func (j *job) joined() (count int) {
	met := map[int]bool{}
	for _, m := range j.members {
		switch {
		case !j.hasJoined(m), m.Rank != nil && (met[*m.Rank] || j.most.World > 0 && *m.Rank >= j.most.World), m.Kind == facts.JobLauncher && j.hasRanks():
			continue
		case m.Rank != nil:
			met[*m.Rank] = true
		}
		count++
	}
	return count
}

// aboutEndpoint is the command that shows which nodes reach a store.
const aboutEndpoint = "preflight rendezvous %s -H hostfile"

// serves reports whether a process listens on the port of a node.
func serves(node *Node, port int) bool {
	return slices.ContainsFunc(node.Jobs.Ports, func(p facts.JobPort) bool { return p.Port == port && p.Listening })
}

// owners returns the nodes that have an address, with their interfaces. It is empty for names,
// except for localhost.
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

// alike reports whether two addresses belong to the same node. Each must be the node's name or an
// address that no other node has.
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
