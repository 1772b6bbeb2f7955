// SPDX-License-Identifier: Apache-2.0

package hang

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
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

// doing is what a rank does while its job stands still.
type doing struct {
	what string // a sentence without its subject
	// own is 0 if the rank may wait for other ranks. Otherwise it does something of its own: the
	// larger the number, the less it looks like waiting for other ranks.
	own int
	way []fix.Command
	on  string // more about what it waits for, such as a file; "" for none
}

// These are the values of doing.own. Ranks that wait for others in NCCL use a CPU, and in torch's
// blocking mode they sleep, so both can be either. A rank that reads its input never waits for others.
const (
	waits = iota
	computes
	sleeps
	works
	blocks
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
	return []checks.Finding{j.undecided()}, told
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

// inside reports whether an address belongs to a node of the job.
func (j *job) inside(address string) bool {
	return len(j.owners(address)) > 0 || slices.ContainsFunc(j.nodes, func(n Node) bool { return n.Address == address })
}

// doing returns what a rank does.
func (j *job) doing(m member) doing {
	in := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(m.WaitsIn, part) })
	}
	host, port := names.SplitEndpoint(m.Reads)
	outside := slices.DeleteFunc(slices.Clone(m.Watch.Flows), func(f facts.JobFlow) bool { return j.inside(f.Remote) })
	perSecond := func(bytes int64) string {
		return humanize.IBytes(uint64(float64(bytes)/max(m.Watch.Seconds, 0.1))) + "/s"
	}
	connections := []fix.Command{fix.On("ss -tnp | grep pid=%s,", fix.Number(m.PID)).Remark("shows its connections")}
	switch {
	case m.Unread != "":
		return doing{fmt.Sprintf("is hidden from this user (%s): it runs as %s", m.Unread, m.User), waits, []fix.Command{fix.Note("Run preflight as that user or as root.")}, ""}
	case m.Compiles != "":
		return doing{"compiles " + m.Compiles, works, []fix.Command{fix.Note("Wait until the compiler has ended.")}, ""}
	case len(outside) > 0 && float64(outside[0].Bytes) > busyRate*m.Watch.Seconds:
		return doing{fmt.Sprintf("transfers data with %s at %s", hostPort(outside[0].Remote, outside[0].RemotePort), perSecond(outside[0].Bytes)), works, connections, ""}
	case m.usesFiles():
		return doing{"reads or writes files at " + perSecond(*m.Watch.Files), works, []fix.Command{fix.On("ls -l /proc/%s/fd", fix.Number(m.PID))}, ""}
	case m.Watch.CPU > busyCPU, m.State == "R" && m.WaitsIn == "": // a busy machine may give it no CPU
		return doing{"computes", computes, m.whereIs(), ""}
	case in("locks_lock_inode", "flock", "setlk", "posix_lock"):
		return doing{"waits for a file lock", blocks, []fix.Command{fix.On("lslocks").Remark("shows which process holds the lock, if it runs on this node")}, m.Reads}
	case in("n_tty_read"), m.Reads == "standard input", strings.HasPrefix(m.Reads, "/dev/pts/"), strings.HasPrefix(m.Reads, "/dev/tty"):
		return doing{"waits for input, as in breakpoint() or input()", blocks, []fix.Command{fix.Note("Remove the breakpoint() or input() from the script: a launcher gives a rank no terminal.")}, ""}
	case m.WaitsIn == "do_wait", in("wait4"):
		return doing{"waits for a program that it started", blocks, []fix.Command{fix.On("ps -o pid,stat,etime,args --ppid %s", fix.Number(m.PID))}, ""}
	case in("pipe_read"):
		return doing{"waits for the output of a program or worker", blocks, []fix.Command{fix.On("ps -o pid,stat,etime,args --ppid %s", fix.Number(m.PID))}, ""}
	case m.State == "D":
		return doing{"waits for a disk or a driver", works, []fix.Command{fix.On("sudo cat /proc/%s/stack", fix.Number(m.PID)).Remark("shows what it waits for in the kernel")}, m.WaitsIn}
	case host != "" && !j.inside(host):
		return doing{"waits for data from " + m.Reads, blocks, connections, ""}
	case host != "" && port == strconv.Itoa(m.storePort()):
		return doing{"waits for a key of the rendezvous store", sleeps, m.whereIs(), ""}
	case in("nanosleep", "do_select"):
		return doing{"sleeps in its own code", sleeps, m.whereIs(), ""}
	case in("poll") && len(m.Watch.Workers) > 0:
		return doing{"waits for its DataLoader or other workers", blocks, []fix.Command{fix.On("ps -o pid,stat,wchan:30,etime,args --ppid %s", fix.Number(m.PID))}, crew(m.Watch.Workers)}
	case in("poll") && len(outside) > 0:
		return doing{"waits for data, probably from " + hostPort(outside[0].Remote, outside[0].RemotePort), blocks, connections, ""}
	case in("poll_schedule_timeout"):
		return doing{"sleeps, or waits for the rendezvous store", sleeps, m.whereIs(), ""}
	}
	return doing{"waits" + prefixed(" in ", m.WaitsIn), waits, m.whereIs(), ""}
}

// usesFiles reports whether a rank read or wrote much data during the watch.
func (m member) usesFiles() bool {
	return m.Watch != nil && m.Watch.Files != nil && float64(*m.Watch.Files) > busyRate*m.Watch.Seconds
}

// prefixed returns a text after a prefix, "" for "".
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// crew says what the workers of a rank wait in, if all wait in the same kernel function.
func crew(workers []facts.JobWorker) string {
	in := workers[0].WaitsIn
	if in == "" || slices.ContainsFunc(workers, func(w facts.JobWorker) bool { return w.WaitsIn != in }) {
		return ""
	}
	return "the workers sleep in " + in
}

// effort returns the measurements about a rank: its CPU time, and what its connections hold back.
func (m member) effort() string {
	said := fmt.Sprintf("state %s, %.0f %% of a CPU", m.State, 100*m.Watch.CPU)
	for _, f := range m.Watch.Flows {
		at := hostPort(f.Remote, f.RemotePort)
		if f.Unsent > 0 {
			said += fmt.Sprintf(", %s for %s not acknowledged", humanize.IBytes(uint64(f.Unsent)), at)
		}
		if f.Unread > 0 {
			said += fmt.Sprintf(", %s from %s not read", humanize.IBytes(uint64(f.Unread)), at)
		}
	}
	return said
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
				verdict, said = checks.Unknown, what+" without a word to the others"
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

// undecided reports that nothing moves and that the rank at fault is unknown.
func (j *job) undecided() checks.Finding {
	j.named = append(j.named, j.members...)
	f := checks.Finding{Verdict: checks.Unknown, Nodes: text.Map(j.looked, func(n *Node) string { return n.Name })}
	unseen := ", and nothing moves"
	if slices.ContainsFunc(j.members, func(m member) bool { return m.NCCL }) && !j.countsCollectives() {
		unseen = "; preflight cannot see whether NCCL moves data"
	}
	f.Summary = "all ranks have met and wait in the same way" + unseen
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

// whereIs returns the commands that show where the Python code of a rank is.
func (m member) whereIs() []fix.Command {
	if s := m.stack(); s != nil && s.Problem != "" {
		return []fix.Command{fix.Here("pip install py-spy").Remark("in the Python environment of the ranks, on every node"),
			fix.Here("preflight hang -H hostfile --stacks").Remark("then shows the line of Python at which each rank is")}
	}
	return m.pySpy()
}

// stack returns the Python stack of a rank, nil if it was not read.
func (m member) stack() *facts.Stack {
	at := slices.IndexFunc(m.node.Stacks, func(s facts.Stack) bool { return s.PID == m.PID })
	if at < 0 {
		return nil
	}
	return &m.node.Stacks[at]
}

// place is where the first thread of a rank is.
type place struct {
	line       string // the line of the training script or of its own modules, such as "train.py:17"
	collective string // the function of torch.distributed in which it waits, "" for none
}

// placeOf returns where a stack is. Its frames are "all_reduce (torch/distributed/distributed_c10d.py:2501)",
// the innermost first. py-spy shows files relative to the directories of sys.path. The line is the
// innermost one of the file that the rank was started with.
func placeOf(s *facts.Stack) (p place) {
	script := ""
	for _, frame := range slices.Backward(s.First()) {
		name, at, _ := strings.Cut(strings.TrimSpace(frame), " (")
		at = strings.TrimSuffix(at, ")")
		file, _, _ := strings.Cut(at, ":")
		switch {
		case strings.HasSuffix(file, "torch/distributed/distributed_c10d.py") && p.collective == "":
			p.collective = name
		case script == "" && !strings.HasPrefix(file, "runpy.py") && !strings.HasPrefix(file, "<"):
			script = file
			fallthrough
		case file == script:
			p.line = path.Base(at)
		}
	}
	return p
}

// stacked finds ranks whose Python code is elsewhere than that of the others.
func (j *job) stacked(does map[int]doing) (findings []checks.Finding) {
	places := map[place][]member{}
	var order []place
	inside := 0
	for _, m := range j.members {
		s := m.stack()
		if s == nil || len(s.First()) == 0 {
			return nil
		}
		p := placeOf(s)
		if places[p] == nil {
			order = append(order, p)
		}
		if places[p] = append(places[p], m); p.collective != "" {
			inside++
		}
	}
	if len(order) < 2 {
		return nil
	}
	said := func(p place) string {
		return "at " + cmp.Or(p.line, "an unknown line") + prefixed(", in ", p.collective)
	}
	each := strings.Join(text.Map(order, func(p place) string { return numbers(places[p]) + " " + said(p) }), "; ")
	if inside > 0 && inside < len(j.members) {
		for _, p := range order {
			if p.collective != "" {
				continue
			}
			verdict, what := checks.Fail, be(places[p])+" at "+cmp.Or(p.line, "an unknown line")
			d := does[slices.IndexFunc(j.members, func(m member) bool { return m.JobProcess == places[p][0].JobProcess })]
			if d.own == computes || d.own == works {
				verdict = checks.Unknown // long work, or a loop without an end
			}
			if d.own != waits && len(places[p]) == 1 {
				what += " and " + d.what
			}
			way := []fix.Command{fix.Note("Find out why it does not get beyond this line. With --stacks, preflight hang shows how each rank got to its line.")}
			if d.own == blocks {
				way = append(slices.Clone(d.way), way...)
			}
			f := j.blame(places[p], verdict, what, way)
			f.Got = each + prefixed("; ", d.on)
			findings = append(findings, f)
		}
		return findings
	}
	way := []fix.Command{fix.Note("Make all ranks call the same collectives in the same order. With --stacks, preflight hang shows how each rank got to its line.")}
	least := slices.MinFunc(order, func(a, b place) int { return cmp.Compare(len(places[a]), len(places[b])) })
	verdict, what := checks.Unknown, "another line of Python"
	if inside == len(j.members) {
		verdict, what = checks.Fail, "another collective"
	}
	f := j.blame(places[least], verdict, "", way)
	if f.Summary, f.Got = fmt.Sprintf("%s %s in %s than the others", numbers(places[least]), be(places[least]), what), each; 2*len(places[least]) >= len(j.members) {
		all := j.blame(j.members, verdict, "", nil)
		f.Summary, f.Nodes = "not all ranks are in the same collective", all.Nodes
		if inside < len(j.members) {
			f.Summary = "not all ranks are at the same line of Python"
		}
	}
	return []checks.Finding{f}
}

// be returns the verb for members.
func be(all []member) string {
	if len(all) == 1 {
		return "is"
	}
	return "are"
}
