// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/facts"
	"preflight/internal/text"
)

// mismatches finds members that were given another rendezvous or size than most members.
func (j *job) mismatches() (findings []checks.Finding) {
	equal := func(one, other string) bool { return one == other }
	for _, field := range []struct {
		what  string
		of    func(facts.Meeting) string
		most  string
		alike func(one, other string) bool
		way   []fix.Command
	}{
		{"the master address", address, j.most.Address, j.alike, []fix.Command{j.meetAt(j.most.Address, j.most.Port).Remark("the same on all nodes")}},
		{"the master port", portTold, counted(j.most.Port), equal, []fix.Command{j.meetAt(j.most.Address, j.most.Port).Remark("the same on all nodes")}},
		{"the run ID", runID, j.most.RunID, equal, []fix.Command{fix.Here("torchrun --rdzv_id=%s …", fix.Word(j.most.RunID)).Remark("the same on all nodes")}},
		{"the world size", world, counted(j.most.World), equal, []fix.Command{fix.Note("Start every node with the same number of nodes and of ranks per node.")}},
		{"the number of nodes", nodesTold, j.most.Nodes, equal, []fix.Command{j.onNodes(j.most.Nodes).Remark("the same on all nodes")}},
	} {
		for _, m := range j.members {
			if value := field.of(m.given()); value != "" && !field.alike(value, field.most) {
				same := func(o member) bool { return field.of(o.given()) == value }
				findings = append(findings, checks.Finding{
					Nodes:   []string{m.node.Name},
					Summary: fmt.Sprintf("%s given %s %s instead of %s", was(j.on(m.node), same), field.what, value, field.most),
					Remedy:  field.way,
				})
			}
		}
	}
	return slices.Concat(findings, j.misled(), j.unowned())
}

// was returns the beginning of a sentence about the members of a node that match.
func was(members []member, told func(member) bool) string {
	these := slices.DeleteFunc(slices.Clone(members), func(m member) bool { return !told(m) })
	switch {
	case len(these) == 1:
		return these[0].number() + " was"
	case len(these) < len(members):
		return numbers(these) + " were"
	}
	return fmt.Sprintf("its %d ranks were", len(members))
}

// misled finds nodes that connect to themselves because they also have the master address. Every
// node has the addresses of the loopback interface and of container bridges.
func (j *job) misled() (findings []checks.Finding) {
	first := j.first()
	owners := j.owners(j.most.Address)
	for _, m := range j.members {
		by, own := owners[m.node.Name]
		if first == nil || m.node == first.node || !own || m.given().Address != j.most.Address {
			continue
		}
		findings = append(findings, checks.Finding{
			Nodes:   []string{m.node.Name},
			Summary: fmt.Sprintf("the master address %s is an address of this node itself (%s), but rank 0 runs on %s", j.most.Address, by, first.node.Name),
			Remedy:  []fix.Command{j.meetAt(first.node.Address, j.most.Port).Remark("the address at which preflight reached %s", fix.Word(first.node.Name))},
		})
	}
	return findings
}

// unowned finds a rendezvous address that no node has. If a member has joined, the network
// translates the address, and there is no finding.
func (j *job) unowned() []checks.Finding {
	_, err := netip.ParseAddr(j.most.Address)
	has := func(n Node) bool { return n.Jobs == nil || n.Address == j.most.Address }
	if err != nil || len(j.owners(j.most.Address)) > 0 || slices.ContainsFunc(j.nodes, has) || slices.ContainsFunc(j.members, j.hasJoined) {
		return nil
	}
	first := j.members[0].node
	if rank0 := j.first(); rank0 != nil {
		first = rank0.node
	}
	f := checks.Finding{
		Summary: fmt.Sprintf("none of these nodes has the master address %s", j.most.Address),
		Remedy:  []fix.Command{j.meetAt(first.Address, j.most.Port).Remark("the address at which preflight reached %s", fix.Word(first.Name))},
	}
	for i := range j.nodes {
		if len(j.on(&j.nodes[i])) > 0 {
			f.Nodes = append(f.Nodes, j.nodes[i].Name)
		}
	}
	return []checks.Finding{f}
}

// absent finds nodes without a process of the job, and launchers that have lost ranks.
func (j *job) absent() (findings []checks.Finding) {
	here := map[*Node]bool{}
	for _, m := range j.members {
		here[m.node] = true
	}
	complete := j.complete() || !j.hasRanks() && len(here) >= j.size()
	for _, node := range j.looked {
		switch {
		case here[node]:
			findings = append(findings, j.gone(node)...)
		case !complete:
			findings = append(findings, checks.Finding{
				Nodes:   []string{node.Name},
				Summary: "no process of this job runs there: its launcher was not started or has ended",
				Got:     j.missingRanks(),
				Remedy: []fix.Command{
					fix.Here("preflight -H hostfile").Remark("then start the launcher there; this shows what would keep it from starting"),
					fix.Note("Read that node's last lines in the output of the launch. pdsh begins each line with the name of its node."),
				},
			})
		}
	}
	if !complete && findings == nil && j.countable() {
		findings = append(findings, j.fewer())
	}
	return findings
}

// fewer reports that ranks are missing although every node runs some. Nodes with fewer ranks than
// others have lost ranks. If all nodes have the same number of ranks, the job has more nodes than
// the hostfile.
func (j *job) fewer() checks.Finding {
	each, most := map[string]int{}, 0
	for _, m := range j.members {
		each[m.node.Name]++
		most = max(most, each[m.node.Name])
	}
	f := checks.Finding{Summary: j.missingRanks(),
		Remedy: []fix.Command{fix.Note("Read that rank's last output. srun --output=%t.log and mpirun --output-filename write one file per rank.")}}
	for _, node := range j.nodes {
		if each[node.Name] < most {
			f.Nodes = append(f.Nodes, node.Name)
		}
	}
	switch {
	case f.Nodes == nil && len(j.ranks())+most <= j.most.World:
		return checks.Finding{Verdict: checks.Unknown,
			Summary: fmt.Sprintf("these nodes run %d of the job's %d ranks: the job has more nodes", len(j.ranks()), j.most.World),
			Remedy:  []fix.Command{fix.Here("preflight hang -H hostfile").Remark("with all nodes of the job")}}
	case f.Nodes != nil:
		f.Summary = fmt.Sprintf("fewer ranks run there than on other nodes (%d): %s", most, f.Summary)
	default:
		f.Summary += ", although every node runs some ranks"
	}
	return f
}

// complete reports whether all ranks of the job run.
func (j *job) complete() bool { return j.most.World > 0 && len(j.ranks()) >= j.most.World }

// countable reports whether all nodes listed their processes and every running rank has a known
// number that no other rank has.
func (j *job) countable() bool {
	return len(j.looked) == len(j.nodes) && j.hasRanks() && len(j.ranks()) == len(j.members)
}

// missingRanks returns a sentence that lists the ranks that run on no node, "" if there are none.
func (j *job) missingRanks() string {
	running := j.ranks()
	var missing []string
	for rank := range min(j.most.World, 1<<16) {
		if !running[rank] {
			missing = append(missing, strconv.Itoa(rank))
		}
	}
	switch {
	case len(missing) == 0:
		return ""
	case len(j.looked) < len(j.nodes):
		return "none of the nodes that answered runs rank " + text.List(missing)
	}
	return "no node runs rank " + text.List(missing)
}

// gone finds ranks that a node's launcher should have but that do not run.
func (j *job) gone(node *Node) (findings []checks.Finding) {
	all := j.on(node)
	local, ranks := 0, 0
	for _, m := range all {
		local = max(local, m.Local)
		if m.Kind == facts.JobRank {
			ranks++
		}
	}
	for _, m := range all {
		if m.Kind == facts.JobLauncher && j.hasRanks() && !elastic(m.Meeting) && !j.complete() {
			findings = append(findings, checks.Finding{Nodes: []string{node.Name},
				Summary: fmt.Sprintf("its launcher (%s, started %s ago) has no rank", m.Program, text.Duration(m.Age)),
				Remedy:  []fix.Command{fix.On("ps -o pid,ppid,stat,etime,args --ppid %s", fix.Number(m.PID))}})
		}
	}
	if orphans := slices.DeleteFunc(slices.Clone(all), func(m member) bool { return !j.watched || m.launcher != nil }); len(orphans) > 0 {
		findings = append(findings, checks.Finding{Nodes: []string{node.Name},
			Summary: fmt.Sprintf("the launcher of %s has ended, but they still run: no launcher will stop them with the others", numbers(orphans)),
			Remedy:  []fix.Command{fix.On("kill %s", pids(orphans)).Remark("before you start the job again")}})
	}
	if ranks > 0 && ranks < local {
		findings = append(findings, checks.Finding{Nodes: []string{node.Name},
			Summary: fmt.Sprintf("only %d of its %d ranks run: the others have ended", ranks, local) + starved(all),
			Got:     j.missingRanks(),
			Remedy:  []fix.Command{fix.Note("Read the last output of the ended ranks: it is in the output of the launch, or below torchrun's --log-dir.")}})
	}
	return findings
}

// starved returns the end of a sentence that says how many processes the kernel has killed in the
// cgroup of the members or their launcher. It returns "" if the kernel has killed none.
func starved(all []member) string {
	most := 0
	for _, m := range all {
		most = max(most, m.OOMKills)
		if m.launcher != nil {
			most = max(most, m.launcher.OOMKills)
		}
	}
	switch most {
	case 0:
		return ""
	case 1:
		return "; the kernel has killed a process of their cgroup because memory ran out"
	}
	return fmt.Sprintf("; the kernel has killed %d processes of their cgroup because memory ran out", most)
}
