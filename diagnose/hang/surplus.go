// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/internal/text"
)

// surplus finds duplicate members, surplus members, and members of other jobs on the nodes.
func (j *job) surplus() []checks.Finding {
	return slices.Concat(j.twins(), j.leftovers(), j.occupied(), j.shared(), j.crowd())
}

// twins finds launchers on several nodes with the same node rank, as happens without --node-rank.
// Each acts as the first node and waits for the others (torch 2.5, torch/distributed/run.py,
// default 0; torchrun's c10d backend ignores the node rank).
func (j *job) twins() (findings []checks.Finding) {
	ranks, on := j.onSeveral(func(m member) *int {
		if m.launcher == nil || elastic(m.launcher.Meeting) {
			return nil
		}
		return m.launcher.NodeRank
	})
	for _, rank := range ranks {
		findings = append(findings, checks.Finding{Nodes: on[rank],
			Summary: fmt.Sprintf("each was given node rank %d", rank),
			Remedy:  []fix.Command{j.asNode().Remark("a different number on each node, from 0")}})
	}
	if findings == nil {
		return j.doubles()
	}
	return findings
}

// doubles finds the same rank on several nodes. This happens if a person or a separate mpirun
// started the ranks of each node.
func (j *job) doubles() []checks.Finding {
	ranks, on := j.onSeveral(func(m member) *int { return m.Rank })
	var twice, where []string
	for _, rank := range ranks {
		twice, where = append(twice, strconv.Itoa(rank)), append(where, on[rank]...)
	}
	if twice == nil {
		return nil
	}
	slices.Sort(where)
	return []checks.Finding{{Nodes: slices.Compact(where),
		Summary: fmt.Sprintf("each runs rank %s: the nodes numbered their ranks separately, so the store treats them as the same ranks", text.List(twice)),
		Remedy:  []fix.Command{fix.Note("Number the ranks across all nodes: RANK = node number × ranks per node + LOCAL_RANK. A single launch for all nodes does this.")}}}
}

// onSeveral returns the numbers that members of several nodes have, sorted, and the nodes of each
// number.
func (j *job) onSeveral(number func(member) *int) (several []int, on map[int][]string) {
	on = map[int][]string{}
	for _, m := range j.members {
		if n := number(m); n != nil && !slices.Contains(on[*n], m.node.Name) {
			on[*n] = append(on[*n], m.node.Name)
		}
	}
	maps.DeleteFunc(on, func(_ int, nodes []string) bool { return len(nodes) < 2 })
	return slices.Sorted(maps.Keys(on)), on
}

// crowd finds more ranks or launchers than the job accepts.
func (j *job) crowd() (findings []checks.Finding) {
	_, most, ranged := strings.Cut(j.most.Nodes, ":")
	if !ranged {
		most = j.most.Nodes
	}
	for i := range j.nodes {
		var over []member
		for _, m := range j.on(&j.nodes[i]) {
			if m.Rank != nil && m.World == j.most.World && *m.Rank >= m.World {
				over = append(over, m)
			}
			if m.Kind == facts.JobLauncher && elastic(m.Meeting) && j.complete() {
				findings = append(findings, checks.Finding{Nodes: []string{m.node.Name},
					Summary: fmt.Sprintf("%s waits for a free place: the job takes %s nodes and already has them", m.Program, most),
					Remedy:  []fix.Command{j.onNodes(strconv.Itoa(len(j.nodes))).Remark("the same on all nodes")}})
			}
		}
		if over != nil {
			findings = append(findings, checks.Finding{Nodes: []string{j.nodes[i].Name},
				Summary: fmt.Sprintf("%s: the job has only %d ranks, numbered from 0", numbers(over), j.most.World),
				Remedy:  []fix.Command{fix.Note("Start the job on fewer nodes, or give all nodes the real number of nodes.")}})
		}
	}
	return findings
}

// leftovers finds ranks of an earlier job. These ranks have no launcher.
func (j *job) leftovers() (findings []checks.Finding) {
	for _, node := range j.nodes {
		var these []member
		oldest, holds := 0.0, ""
		for _, m := range j.left {
			if m.node.Name == node.Name {
				these, oldest = append(these, m), max(oldest, m.Age)
			}
			if m.node.Name == node.Name && m.listens(j.most.Port) {
				holds = fmt.Sprintf("%s listens on port %d, the master port of this job", m.number(), j.most.Port)
			}
		}
		if these != nil {
			findings = append(findings, checks.Finding{Nodes: []string{node.Name},
				Summary: fmt.Sprintf("%s of an earlier job: running for %s without a launcher, still holding ports, GPUs and places in the rendezvous", numbers(these), text.Duration(oldest)),
				Got:     holds,
				Remedy:  []fix.Command{fix.On("kill %s", pids(these)).Remark("if they are no longer needed")}})
		}
	}
	return findings
}

// pids returns the process IDs of members as arguments for kill.
func pids(all []member) fix.Arg {
	each := text.Map(all, func(m member) fix.Arg { return fix.Number(m.PID) })
	return fix.Join(" ", each...)
}

// shared finds duplicate ranks on one node. Either two jobs use the same port, or a rank was
// started twice.
func (j *job) shared() (findings []checks.Finding) {
	for i := range j.nodes {
		var twice []string
		launchers := map[int]string{} // the first duplicate of each launcher
		all := j.on(&j.nodes[i])
		for _, m := range all {
			again := func(o member) bool {
				return o.PID != m.PID && o.Rank != nil && m.Rank != nil && *o.Rank == *m.Rank && (o.Launcher != m.Launcher || o.Parent == m.Parent && o.Script == m.Script)
			}
			if slices.ContainsFunc(all, again) {
				twice = append(twice, fmt.Sprintf("%s (pid %d, started %s ago)", m.number(), m.PID, text.Duration(m.Age)))
				launchers[m.Launcher] = cmp.Or(launchers[m.Launcher], twice[len(twice)-1])
			}
		}
		f := checks.Finding{Nodes: []string{j.nodes[i].Name}}
		switch {
		case twice == nil:
			continue
		case len(launchers) == 1:
			f.Summary = "two of its processes have the same rank: the store treats them as one"
			if f.Got = text.List(twice); j.missingRanks() != "" {
				f.Got += "; " + j.missingRanks()
			}
			f.Remedy = []fix.Command{fix.Note("Give each process of a node its own RANK and LOCAL_RANK.")}
		default:
			f.Summary = fmt.Sprintf("two jobs use port %d for their rendezvous: each treats the other's ranks as its own", j.most.Port)
			f.Got = strings.Join(slices.Sorted(maps.Values(launchers)), ", ")
			f.Remedy = []fix.Command{j.meetAt(j.most.Address, j.most.Port+1).Remark("for one of the two jobs")}
		}
		findings = append(findings, f)
	}
	return findings
}

// part separates members of other users and of other jobs. Processes of other users are not listed
// as leftovers, because this user cannot end them.
func (j *job) part(elsewhere []member) {
	j.strangers = slices.DeleteFunc(slices.Concat(elsewhere, j.left), j.owns)
	j.others = slices.DeleteFunc(slices.Clone(elsewhere), func(m member) bool { return !j.owns(m) })
	j.left = slices.DeleteFunc(j.left, func(m member) bool { return !j.owns(m) })
}

// shares reports other jobs on the nodes, because other jobs use some of the nodes' resources.
func (j *job) shares() (waits []Wait) {
	told := map[[2]string]bool{}
	for _, m := range slices.Concat(j.others, j.strangers) {
		what := "another user's job also runs there: " + m.User + "'s " + cmp.Or(m.Script, m.Program, "job")
		if j.owns(m) {
			at := m.given()
			if at.Port == 0 {
				continue
			}
			what = fmt.Sprintf("another job also runs there: use `"+aboutEndpoint+"` to examine it", text.HostPort(at.Address, at.Port))
		}
		at := slices.IndexFunc(waits, func(w Wait) bool { return w.What == what })
		if at < 0 {
			at = len(waits)
			waits = append(waits, Wait{What: what})
		}
		if one := [2]string{what, m.node.Name}; !told[one] {
			told[one], waits[at].Nodes = true, append(waits[at].Nodes, m.node.Name)
		}
	}
	return waits
}

// occupied finds another user's process that listens on this job's master port.
func (j *job) occupied() (findings []checks.Finding) {
	first := j.first()
	for _, m := range j.strangers {
		if m.listens(j.most.Port) && (first == nil || first.node == m.node) {
			findings = append(findings, checks.Finding{Nodes: []string{m.node.Name},
				Summary: fmt.Sprintf("%s of another user's job (%s) listens on port %d, the master port of this job", m.number(), m.User, j.most.Port),
				Remedy:  []fix.Command{j.meetAt(j.most.Address, j.most.Port+1).Remark("for this job")}})
		}
	}
	return findings
}
