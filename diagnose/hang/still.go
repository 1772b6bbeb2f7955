// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"preflight/checks"
	"preflight/checks/fix"
	"preflight/checks/names"
	"preflight/facts"
	"preflight/internal/text"
)

const (
	// keepAlive is how many bytes a connection of a rank with NCCL may carry during a watch while the
	// job stands still. NCCL's RAS threads greet each other every second, with less than 200 bytes, and
	// answer preflight's own questions, with less than keepAliveOfRank for each rank of the job (NCCL
	// 2.27, src/ras/ras_internal.h, RAS_KEEPALIVE_INTERVAL, struct rasCollComms). Connections of ranks
	// without NCCL carry nothing.
	keepAlive       = 2 << 10
	keepAliveOfRank = 1 << 10
	// busyRate is how many bytes a rank reads or writes per second if it loads data, saves a checkpoint
	// or downloads. A rank that waits may write logs and send metrics.
	busyRate = 256 << 10
	// busyCPU is the share of a CPU above which a rank computes, or waits without sleeping.
	busyCPU = 0.2
	// lateness is the smallest time in seconds that tells two ranks apart by when they sent data.
	lateness = 1
)

// sampled reports whether the agents have watched every member of the job.
func (j *job) sampled() bool {
	return !slices.ContainsFunc(j.members, func(m member) bool { return m.Watch == nil })
}

// met reports whether all ranks are connected to nodes of the job, so that they must have met. Through
// the loopback interface, an MPI connects its ranks to its daemon.
func (j *job) met() bool {
	return j.complete() && j.sampled() && !slices.ContainsFunc(j.members, func(m member) bool {
		return !slices.ContainsFunc(m.Watch.Flows, func(f facts.JobFlow) bool { return j.inside(f.Remote) && !names.IsLoopback(f.Remote) })
	})
}

// still reports which rank the others wait for, in a job whose ranks have met and do not move. told says
// what each rank does.
func (j *job) still() (findings []checks.Finding, told []Wait) {
	var all standing
	does := map[int]doing{}
	for i, m := range j.members {
		does[i] = j.doing(m)
		all.add(m, patient("%s (%s)", does[i].what, m.effort()))
	}
	_, told = all.sorted()
	for _, judge := range []func(map[int]doing) []checks.Finding{j.silent, j.stacked, j.behind, j.odd, j.lost, j.late} {
		if findings = judge(does); findings != nil {
			return findings, told
		}
	}
	return []checks.Finding{j.undecided(does)}, told
}

// moves returns a sentence about what the job has done during the watch, or "" if it stands still.
// Ranks that wait may use a whole CPU or GPU, so these do not count.
func (j *job) moves() string {
	var bytes int64
	changed, seconds := 0, 0.0
	for _, m := range j.members {
		seconds = max(seconds, m.Watch.Seconds)
		for _, f := range m.Watch.Flows {
			if j.inside(f.Remote) && (!m.NCCL && f.Bytes > 0 || f.Bytes > keepAlive+keepAliveOfRank*int64(j.most.World)) {
				bytes += f.Bytes
			}
		}
		if s := m.stack(); s != nil && s.Changed {
			changed++
		}
	}
	during := " within " + text.Duration(seconds)
	switch {
	case bytes > 0:
		return fmt.Sprintf("the job moves: its ranks exchanged %s%s", humanize.IBytes(uint64(bytes/2+1)), during)
	case slices.ContainsFunc(j.looked, func(n *Node) bool { return n.Jobs.NCCL != nil && n.Jobs.NCCL.Moved != nil && *n.Jobs.NCCL.Moved }):
		return "the job moves: NCCL launched collectives" + during
	case 2*changed > len(j.members):
		return fmt.Sprintf("the job moves: the Python code of %d of its ranks moved on within a second", changed)
	}
	return ""
}

// blame returns the finding that the other ranks wait for these.
func (j *job) blame(these []member, verdict checks.Verdict, what string, way []fix.Command) checks.Finding {
	j.named = append(j.named, these...)
	f := checks.Finding{Verdict: verdict, Summary: numbers(these) + " " + what, Remedy: way}
	for _, m := range these {
		if !slices.Contains(f.Nodes, m.node.Name) {
			f.Nodes = append(f.Nodes, m.node.Name)
		}
	}
	if len(these) < len(j.members) {
		f.Summary += ", and " + j.rest(these) + " for " + them(these)
	}
	return f
}

// rest returns the beginning of a sentence about the ranks that are not among these.
func (j *job) rest(these []member) string {
	others := slices.DeleteFunc(slices.Clone(j.members), func(m member) bool {
		return slices.ContainsFunc(these, func(o member) bool { return o.JobProcess == m.JobProcess })
	})
	if len(others) == 1 {
		return others[0].number() + " waits"
	}
	return "the others wait"
}

func them(all []member) string {
	if len(all) == 1 {
		return "it"
	}
	return "them"
}

// silent finds the ranks that do not answer NCCL.
func (j *job) silent(map[int]doing) (findings []checks.Finding) {
	return j.byNCCL(func(r *facts.RAS) []facts.RASRank { return r.Silent }, func(these []member, one facts.RASRank) checks.Finding {
		what := "does not answer NCCL's RAS service: the process is stopped or hangs in the driver"
		if one.Dead {
			what = "has been given up by NCCL's RAS service: it does not answer"
		}
		return j.blame(these, checks.Fail, what, these[0].whereIs())
	})
}

// behind finds the ranks that have launched fewer collectives than the others.
func (j *job) behind(map[int]doing) []checks.Finding {
	return j.byNCCL(func(r *facts.RAS) []facts.RASRank { return r.Behind }, func(these []member, one facts.RASRank) checks.Finding {
		f := j.blame(these, checks.Fail, "has launched fewer NCCL collectives", these[0].whereIs())
		f.Got = one.Collectives
		return f
	})
}

// byNCCL returns a finding for each rank in an answer of NCCL.
func (j *job) byNCCL(list func(*facts.RAS) []facts.RASRank, finding func([]member, facts.RASRank) checks.Finding) (findings []checks.Finding) {
	for _, node := range j.looked {
		if node.Jobs.NCCL == nil {
			continue
		}
		for _, one := range list(node.Jobs.NCCL) {
			at := slices.IndexFunc(j.members, func(m member) bool {
				_, own := m.node.Jobs.Addresses[one.Host]
				return m.PID == one.PID && (own || m.node.Address == one.Host)
			})
			if at >= 0 {
				findings = append(findings, finding(j.members[at:at+1:at+1], one))
			}
		}
		if findings != nil {
			return findings // every node is told the same
		}
	}
	return nil
}

// odd finds ranks that do something of their own while the others wait.
func (j *job) odd(does map[int]doing) (findings []checks.Finding) {
	most := waits
	for _, d := range does {
		most = max(most, d.own)
	}
	for ; most > waits; most-- {
		var these []member
		var order []string
		by := map[string][]member{}
		way, on := map[string][]fix.Command{}, map[string]string{}
		for i, m := range j.members {
			if d := does[i]; d.own == most {
				these = append(these, m)
				if by[d.what] == nil {
					order = append(order, d.what)
				}
				by[d.what], way[d.what], on[d.what] = append(by[d.what], m), d.way, d.on
			}
		}
		if len(these) == 0 || 2*len(these) > len(j.members) {
			continue
		}
		for _, what := range order {
			verdict, said := checks.Fail, what
			switch most {
			case computes:
				verdict, said = checks.Unknown, what+" and exchanges no data"
			case works:
				verdict = checks.Unknown
			}
			f := j.blame(by[what], verdict, said, way[what])
			f.Got = by[what][0].effort() + prefixed("; ", on[what])
			findings = append(findings, f)
		}
		return findings
	}
	return j.unlike(does)
}

// unlike finds the ranks that wait in another way than more than half of the ranks.
func (j *job) unlike(does map[int]doing) []checks.Finding {
	by := map[string]int{}
	for _, d := range does {
		by[d.what]++
	}
	var these []member
	var what []string
	for i, m := range j.members {
		if 2*by[does[i].what] <= len(j.members) {
			if these = append(these, m); !slices.Contains(what, does[i].what) {
				what = append(what, does[i].what)
			}
		}
	}
	if len(these) == 0 || 2*len(these) >= len(j.members) {
		return nil
	}
	f := j.blame(these, checks.Unknown, "", these[0].whereIs())
	f.Summary = numbers(these) + " " + be(these) + " unlike the others: " + strings.Join(what, "; ")
	return []checks.Finding{f}
}

// lost finds connections between ranks whose packets do not arrive.
func (j *job) lost(map[int]doing) (findings []checks.Finding) {
	for _, m := range j.members {
		at := slices.IndexFunc(m.Watch.Flows, func(f facts.JobFlow) bool { return f.Unsent > 0 && f.Bytes == 0 && j.inside(f.Remote) })
		if at < 0 {
			continue
		}
		f := m.Watch.Flows[at]
		j.named = append(j.named, m)
		findings = append(findings, checks.Finding{Verdict: checks.Fail, Nodes: []string{m.node.Name},
			Summary: fmt.Sprintf("%s has sent data to %s that does not arrive: packets are lost on the way", m.number(), f.Remote),
			Got:     fmt.Sprintf("%s not acknowledged", humanize.IBytes(uint64(f.Unsent))),
			Remedy: []fix.Command{fix.On("ping -c 3 -M do -s 1472 %s", fix.Host(f.Remote)).Remark("fails if the path takes only smaller packets than the interface (MTU)"),
				fix.Here("preflight -H hostfile").Remark("tests the connections and the MTU between all nodes")}})
	}
	return findings
}

// late finds the rank that sent data last before all others did. When ranks enter a collective, they send
// data to others, and the rank for which they wait has not entered it. The clocks of nodes differ by
// less than lateness.
func (j *job) late(map[int]doing) []checks.Finding {
	type sender struct {
		m    member
		sent float64
	}
	var all []sender
	for _, m := range j.members {
		s := sender{m: m}
		for _, f := range m.Watch.Flows {
			if j.inside(f.Remote) {
				s.sent = max(s.sent, f.Sent)
			}
		}
		if s.sent == 0 || m.NCCL { // NCCL's data does not show here, and its RAS threads send all the time
			return nil
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b sender) int { return cmp.Compare(a.sent, b.sent) })
	if len(all) < 2 {
		return nil
	}
	gap, spread := all[1].sent-all[0].sent, all[len(all)-1].sent-all[1].sent
	if gap < lateness || gap < spread {
		return nil
	}
	f := j.blame([]member{all[0].m}, checks.Unknown, "sent its last data before all others", all[0].m.whereIs())
	f.Got = text.Duration(gap) + " before the next rank, as a rank that has not entered the collective"
	return []checks.Finding{f}
}

// undecided reports that nothing moves and that the rank at fault is unknown. Most ranks do the same as
// the first.
func (j *job) undecided(does map[int]doing) checks.Finding {
	j.named = append(j.named, j.members...)
	f := checks.Finding{Verdict: checks.Unknown, Nodes: text.Map(j.looked, func(n *Node) string { return n.Name })}
	unseen := ", and nothing moves"
	if slices.ContainsFunc(j.members, func(m member) bool { return m.NCCL }) && !j.countsCollectives() {
		unseen = "; preflight cannot see whether NCCL moves data"
	}
	f.Summary = "all ranks have met and wait in the same way" + unseen
	if does[0].own == computes {
		f.Summary = "all ranks have met and compute, without exchanging data within the last seconds"
		if strings.HasPrefix(unseen, ";") {
			f.Summary = "all ranks have met and compute or wait for NCCL" + unseen
		}
	}
	if at := slices.IndexFunc(j.members, func(m member) bool { return m.Unread != "" }); at >= 0 {
		f.Remedy = append(f.Remedy, fix.Note("Run preflight as %s or as root to see what the ranks wait for.", fix.Word(j.members[at].User)))
	}
	for _, m := range j.members {
		if s := m.stack(); s == nil || s.Problem != "" {
			f.Remedy = append(f.Remedy, m.whereIs()...)
			return f
		}
	}
	f.Summary = "all ranks have met and wait at the same line" + unseen
	f.Remedy = append(f.Remedy, fix.Here("preflight -H hostfile").Remark("tests the network between the nodes, and the GPUs"))
	return f
}

// countsCollectives reports whether NCCL has told how many collectives its ranks have launched.
func (j *job) countsCollectives() bool {
	return slices.ContainsFunc(j.looked, func(n *Node) bool { return n.Jobs.NCCL != nil && n.Jobs.NCCL.Moved != nil })
}
