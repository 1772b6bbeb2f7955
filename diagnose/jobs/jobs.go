// SPDX-License-Identifier: Apache-2.0

// Package jobs finds the distributed launches that run on this machine: the ranks and launchers,
// their place in the job, and what they wait for.
//
// The package only reads /proc and the kernel's list of connections, looks for torch's build locks,
// and asks NCCL's RAS service, which NCCL offers for this purpose. It sends no signals and traces no
// process. It keeps only the variables and arguments that define the
// rendezvous or the build directory.
package jobs

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"preflight/facts"
	"preflight/probe/machine"
)

const (
	// mostProcesses limits how many processes are recorded. It is larger than the number of ranks,
	// launchers and leftovers on any node.
	mostProcesses = 512
	// mostSockets limits how many sockets are recorded for a process. It is larger than the number
	// of sockets of a waiting rank, without the connections to other ranks.
	mostSockets = 32
	// ticks is the kernel's USER_HZ, the unit of times in /proc (man 5 proc), on all supported
	// systems.
	ticks = 100
)

// process is a process of the machine, with its child processes.
type process struct {
	procfs.Proc
	stat     procfs.ProcStat
	argv     []string
	environ  map[string]string
	unread   error
	children []*process
	job      *facts.JobProcess // nil if the process belongs to no job
}

// Look returns the processes of launches. at is another port to check in addition to the rendezvous
// ports, or 0. own maps the machine's addresses to its interfaces. If watching is positive, Look also
// watches for that time what the ranks do, and asks NCCL's RAS service.
func Look(ctx context.Context, o machine.Options, at int, own map[string]string, watching time.Duration) (*facts.Jobs, error) {
	o = o.Together()
	proc, err := procfs.NewFS(o.At("/proc"))
	if err != nil {
		return nil, err
	}
	all, err := processes(ctx, proc)
	if err != nil {
		return nil, err
	}
	seen := &facts.Jobs{Addresses: own, Processes: []facts.JobProcess{}, Ports: []facts.JobPort{}}
	ports := map[int]bool{at: true}
	for _, p := range all {
		if all[p.stat.PPID] == nil {
			p.assign(nil, ports)
		}
	}
	delete(ports, 0)
	up, _ := strconv.ParseFloat(machine.FirstWord(machine.Line(o.At("/proc/uptime"))), 64)
	tables := &tables{o: o, seen: map[string][]row{}}
	var members, ranks []*process
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		p := all[pid]
		switch {
		case p.job == nil:
			continue
		case len(members) == mostProcesses:
			seen.Left++
			continue
		}
		p.waiting(o, up)
		p.connected(tables, ports, own)
		p.locks(ctx, o, all)
		if p.job.Kind == facts.JobRank && p.stat.State != "Z" {
			p.job.Reads = p.reading(o, tables.of(pid))
			ranks = append(ranks, p)
		}
		members = append(members, p)
	}
	if watching > 0 && len(ranks) > 0 {
		seen.NCCL = watch(ctx, o, ranks, ports, tables, watching)
	}
	for _, p := range members {
		seen.Processes = append(seen.Processes, *p.job)
	}
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		seen.Ports = append(seen.Ports, tables.at(port, seen.Processes))
	}
	return seen, ctx.Err()
}

// OwnAddresses returns this machine's addresses with their interfaces.
func OwnAddresses() (map[string]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for _, one := range interfaces {
		addresses, _ := one.Addrs() // on an error the interface has disappeared
		for _, address := range addresses {
			if prefix, is := address.(*net.IPNet); is {
				own[prefix.IP.String()] = one.Name
			}
		}
	}
	return own, nil
}

// processes returns the machine's processes by ID, without kernel threads.
func processes(ctx context.Context, proc procfs.FS) (map[int]*process, error) {
	listed, err := proc.AllProcs()
	if err != nil {
		return nil, err
	}
	all := map[int]*process{}
	for _, one := range listed {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		p := &process{Proc: one}
		if p.stat, err = one.Stat(); err != nil || p.stat.PID == 2 || p.stat.PPID == 2 {
			continue // the process has ended, or is a kernel thread
		}
		p.argv, _ = one.CmdLine() // a zombie has no command line
		var environ []string
		environ, p.unread = one.Environ()
		p.environ = map[string]string{}
		for _, entry := range environ {
			if name, value, _ := strings.Cut(entry, "="); slices.Contains(heeded, name) {
				p.environ[name] = value
			}
		}
		all[one.PID] = p
	}
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		if parent := all[all[pid].stat.PPID]; parent != nil {
			parent.children = append(parent.children, all[pid])
		}
	}
	return all, nil
}

// assign sets the role of a process and of all processes below it. above is the nearest ancestor
// that belongs to a job.
func (p *process) assign(above *process, ports map[int]bool) {
	if p.job = p.role(above); p.job != nil {
		ports[p.job.Port] = true
		above = p
	}
	for _, child := range p.children {
		child.assign(above, ports)
	}
}

// role returns the role of a process in a job, or nil if the process has no role.
func (p *process) role(above *process) *facts.JobProcess {
	told := &facts.JobProcess{PID: p.PID, Parent: p.stat.PPID, State: p.stat.State, Script: script(p.argv)}
	if p.unread != nil && p.stat.State != "Z" {
		told.Unread = machine.Reason(p.unread)
	}
	if above != nil {
		told.Launcher = above.PID
	}
	if told.Kind, told.Program = launcher(p.argv); told.Kind != "" {
		told.Meeting = launcherMeeting(p.argv)
		return told
	}
	told.Kind, told.Meeting = facts.JobRank, rankMeeting(p.environ, p.argv)
	underLauncher := above != nil && above.job.Kind == facts.JobLauncher
	switch {
	case above != nil && above.job.Kind == facts.JobRank:
		return nil // a worker, compiler or shell of that rank
	case p.leads():
		return nil // a shell that mpirun or srun started, not a rank
	case told.Rank != nil && told.World > 0,
		underLauncher && p.stat.State == "Z",
		underLauncher && p.unread != nil && isPython(p.argv):
		return told
	}
	return nil
}

// leads reports whether a launcher runs below the process.
func (p *process) leads() bool {
	return slices.ContainsFunc(p.children, func(child *process) bool {
		kind, _ := launcher(child.argv)
		return kind != "" || child.leads()
	})
}

// waiting records what a process waits for and how long it has waited.
func (p *process) waiting(o machine.Options, up float64) {
	p.job.Age = max(0, up-float64(p.stat.Starttime)/ticks)
	owner, tracer := statusOf(o, p.PID)
	p.job.User, p.job.Tracer = machine.Owner(o, owner), tracer
	p.job.OOMKills = oomKills(o, p.PID)
	if wchan, err := p.Wchan(); err == nil && wchan != "0" {
		p.job.WaitsIn = wchan
	}
	if p.stat.State == "Z" {
		p.job.Exit = exitOf(machine.Line(o.At(fmt.Sprintf("/proc/%d/stat", p.PID))))
		return
	}
	if p.job.Kind != facts.JobRank {
		return
	}
	if text, err := os.ReadFile(o.At(fmt.Sprintf("/proc/%d/maps", p.PID))); err == nil {
		loaded := strings.Contains(string(text), "/libtorch") || strings.Contains(string(text), "/libc10")
		p.job.Torch, p.job.NCCL = &loaded, strings.Contains(string(text), "/libnccl") && strings.Contains(string(text), "/dev/nvidia")
	}
	p.eachBelow(func(below *process) {
		p.job.Busy = p.job.Busy || computes(o, below)
		if !slices.Contains(compilers, below.stat.Comm) {
			return
		}
		if age := max(0, up-float64(below.stat.Starttime)/ticks); age >= p.job.CompilesFor {
			dir, _ := below.Cwd()
			if p.job.CompilesFor, p.job.Compiles = age, path.Base(dir); dir == "" {
				p.job.Compiles = below.stat.Comm
			}
		}
	})
}

// compilers lists the programs that compile an op, by the names that the kernel shows.
// torch.utils.cpp_extension runs ninja in a directory with the op's name.
var compilers = []string{"ninja", "nvcc", "cicc", "ptxas", "c++", "g++", "cc1plus", "hipcc"}

// eachBelow visits a process and the processes below it that do not belong to another rank or
// launcher.
func (p *process) eachBelow(do func(*process)) {
	do(p)
	for _, child := range p.children {
		if child.job == nil {
			child.eachBelow(do)
		}
	}
}

// computes reports whether a thread of the process runs or waits for a disk.
func computes(o machine.Options, p *process) bool {
	threads, _ := os.ReadDir(o.At(fmt.Sprintf("/proc/%d/task", p.PID)))
	for _, thread := range threads {
		line := machine.Line(o.At(fmt.Sprintf("/proc/%d/task/%s/stat", p.PID, thread.Name())))
		if after := line[strings.LastIndexByte(line, ')')+1:]; slices.Contains([]string{"R", "D"}, machine.FirstWord(after)) {
			return true
		}
	}
	return slices.Contains([]string{"R", "D"}, p.stat.State)
}

// statusOf returns the user of a process (-1 if unknown) and the process that traces it (0 if none
// does).
func statusOf(o machine.Options, pid int) (owner, tracer int) {
	text, _ := os.ReadFile(o.At(fmt.Sprintf("/proc/%d/status", pid))) // on an error the process has ended
	owner = -1
	for line := range strings.Lines(string(text)) {
		switch words := strings.Fields(line); {
		case len(words) > 2 && words[0] == "Uid:":
			owner, _ = strconv.Atoi(words[2]) // the effective user
		case len(words) > 1 && words[0] == "TracerPid:":
			tracer, _ = strconv.Atoi(words[1])
		}
	}
	return owner, tracer
}

// exitOf returns the exit code of an ended process as a shell reports it. The last field of
// /proc/PID/stat is the status that wait(2) returns (man 5 proc). The field is 0 for users who may
// not trace the process.
func exitOf(stat string) *int {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const exitCode = 52 - 2 // without the first two fields, pid and comm
	if len(fields) < exitCode {
		return nil
	}
	status, err := strconv.Atoi(fields[exitCode-1])
	if err != nil {
		return nil
	}
	code := status >> 8 & 0xff
	if signal := status & 0x7f; signal != 0 {
		code = 128 + signal
	}
	return &code
}

// isPython reports whether the command line starts a Python interpreter.
func isPython(argv []string) bool {
	return len(argv) > 0 && strings.HasPrefix(path.Base(argv[0]), "python")
}

// script returns the training script or module on a command line, or "" if there is none.
func script(argv []string) string {
	if module := moduleOf(argv); module != "" && launcherModules[module] == "" {
		return module
	}
	if at := scriptAt(argv); at < len(argv) {
		return path.Base(argv[at])
	}
	return ""
}

// scriptAt returns the index of the first Python file that does not belong to a launcher, or the
// number of arguments if there is none.
func scriptAt(argv []string) int {
	isScript := func(word string) bool { return strings.HasSuffix(word, ".py") && programs[path.Base(word)] == "" }
	if at := slices.IndexFunc(argv, isScript); at >= 0 {
		return at
	}
	return len(argv)
}

// oomKills returns how many processes the kernel has killed in the process's cgroup since it was
// created. Slurm jobs and containers have their own cgroup. A parent cgroup counts only if it has a
// memory limit, such as the job's cgroup above its steps. Parents without a limit include kills of
// other jobs.
//
// Source: Linux 6.12, Documentation/admin-guide/cgroup-v2.rst, memory.events, which includes
// descendants; mm/memcontrol-v1.c, memory.oom_control, which has oom_kill since 4.13.
func oomKills(o machine.Options, pid int) (most int) {
	c, found := machine.CgroupOf(o, strconv.Itoa(pid), "memory")
	if !found {
		return 0
	}
	events := "memory.oom_control"
	if c.V2 {
		events = "memory.events"
	}
	for dir := range c.Upward() {
		if _, limited := c.MemoryLimit(dir); dir != c.Dir && !limited {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(dir, events)) // the root cgroup has no such file
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) == 2 && words[0] == "oom_kill" {
				n, _ := strconv.Atoi(words[1])
				most = max(most, n)
			}
		}
	}
	return most
}
