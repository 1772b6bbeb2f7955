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
		return doing{fmt.Sprintf("transfers data with %s at %s", text.HostPort(outside[0].Remote, outside[0].RemotePort), perSecond(outside[0].Bytes)), works, connections, ""}
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
		return doing{"waits for data, probably from " + text.HostPort(outside[0].Remote, outside[0].RemotePort), works, connections, ""}
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
	state := fmt.Sprintf("state %s, %.0f %% of a CPU", m.State, 100*m.Watch.CPU)
	for _, f := range m.Watch.Flows {
		at := text.HostPort(f.Remote, f.RemotePort)
		if f.Unsent > 0 {
			state += fmt.Sprintf(", %s for %s not acknowledged", humanize.IBytes(uint64(f.Unsent)), at)
		}
		if f.Unread > 0 {
			state += fmt.Sprintf(", %s from %s not read", humanize.IBytes(uint64(f.Unread)), at)
		}
	}
	return state
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
