// SPDX-License-Identifier: Apache-2.0

// Package jobs looks at the distributed launches that run on this machine: which processes are
// ranks and launchers of one, what each was told of its place in it, and what it waits in. It
// reads /proc, and looks for the locks of ops that torch builds: it refuses to signal, trace or call
// anybody, and to keep any variable or argument that does not say where ranks meet or build.
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

	"github.com/prometheus/procfs"

	"preflight/facts"
	"preflight/probe/machine"
)

const (
	// mostProcesses is more than the ranks, launchers and leftovers of any node.
	mostProcesses = 512
	// mostSockets is more than a rank has that waits, its calls to other ranks left out.
	mostSockets = 32
	// ticks is the kernel's USER_HZ, in which /proc counts (man 5 proc), on all that we run on.
	ticks = 100
)

// process is one of the machine, and what is below it.
type process struct {
	procfs.Proc
	stat     procfs.ProcStat
	argv     []string
	environ  map[string]string
	unread   error
	children []*process
	told     *facts.JobProcess // nil for a process of no job
}

// Look lists the processes of launches. at is a port that is of interest besides those at which
// they meet, 0 for none; own are the machine's addresses with their interfaces.
func Look(ctx context.Context, o machine.Options, at int, own map[string]string) (*facts.Jobs, error) {
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
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		p := all[pid]
		switch {
		case p.told == nil:
			continue
		case len(seen.Processes) == mostProcesses:
			seen.Left++
			continue
		}
		p.waiting(o, up)
		p.connected(tables, ports, own)
		p.locks(ctx, o, all)
		seen.Processes = append(seen.Processes, *p.told)
	}
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		seen.Ports = append(seen.Ports, tables.at(port, seen.Processes))
	}
	return seen, ctx.Err()
}

// OwnAddresses are this machine's, each with its interface.
func OwnAddresses() (map[string]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for _, one := range interfaces {
		addresses, _ := one.Addrs() // it is gone then
		for _, address := range addresses {
			if prefix, is := address.(*net.IPNet); is {
				own[prefix.IP.String()] = one.Name
			}
		}
	}
	return own, nil
}

// processes are all of the machine that are no threads of the kernel, by their ID.
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
			continue // it has ended since, or is the kernel's
		}
		p.argv, _ = one.CmdLine() // a zombie has none
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

// assign says of a process and of all below it what they are to a job; above is the nearest
// that is of one.
func (p *process) assign(above *process, ports map[int]bool) {
	if p.told = p.role(above); p.told != nil {
		ports[p.told.Port] = true
		above = p
	}
	for _, child := range p.children {
		child.assign(above, ports)
	}
}

// role is what a process is to a job, nil where it is of none.
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
	underLauncher := above != nil && above.told.Kind == facts.JobLauncher
	switch {
	case above != nil && above.told.Kind == facts.JobRank:
		return nil // a worker, compiler or shell of that rank
	case p.leads():
		return nil // a shell that mpirun or srun has started, and no rank
	case told.Rank != nil && told.World > 0,
		underLauncher && p.stat.State == "Z",
		underLauncher && p.unread != nil && isPython(p.argv):
		return told
	}
	return nil
}

// leads is whether a launcher is below a process.
func (p *process) leads() bool {
	return slices.ContainsFunc(p.children, func(child *process) bool {
		kind, _ := launcher(child.argv)
		return kind != "" || child.leads()
	})
}

// waiting tells what a process waits in, and since when.
func (p *process) waiting(o machine.Options, up float64) {
	p.told.Age = max(0, up-float64(p.stat.Starttime)/ticks)
	owner, tracer := statusOf(o, p.PID)
	p.told.User, p.told.Tracer = machine.Owner(o, owner), tracer
	p.told.OOMKills = oomKills(o, p.PID)
	if wchan, err := p.Wchan(); err == nil && wchan != "0" {
		p.told.WaitsIn = wchan
	}
	if p.stat.State == "Z" {
		p.told.Exit = exitOf(machine.Line(o.At(fmt.Sprintf("/proc/%d/stat", p.PID))))
		return
	}
	if p.told.Kind != facts.JobRank {
		return
	}
	if text, err := os.ReadFile(o.At(fmt.Sprintf("/proc/%d/maps", p.PID))); err == nil {
		loaded := strings.Contains(string(text), "/libtorch") || strings.Contains(string(text), "/libc10")
		p.told.Torch = &loaded
	}
	p.eachBelow(func(below *process) {
		p.told.Busy = p.told.Busy || computes(o, below)
		if !slices.Contains(compilers, below.stat.Comm) {
			return
		}
		if age := max(0, up-float64(below.stat.Starttime)/ticks); age >= p.told.CompilesFor {
			dir, _ := below.Cwd()
			if p.told.CompilesFor, p.told.Compiles = age, path.Base(dir); dir == "" {
				p.told.Compiles = below.stat.Comm
			}
		}
	})
}

// compilers are the programs that compile an op, by the names that the kernel has for them:
// torch.utils.cpp_extension has ninja build it, in a directory of the op's name.
var compilers = []string{"ninja", "nvcc", "cicc", "ptxas", "c++", "g++", "cc1plus", "hipcc"}

// eachBelow goes through a process and all below it that are of no other rank or launcher.
func (p *process) eachBelow(do func(*process)) {
	do(p)
	for _, child := range p.children {
		if child.told == nil {
			child.eachBelow(do)
		}
	}
}

// computes is whether a thread of the process runs or waits for a disk.
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

// statusOf is the user that a process runs as, and the process that traces it, 0 for none.
func statusOf(o machine.Options, pid int) (owner, tracer int) {
	text, _ := os.ReadFile(o.At(fmt.Sprintf("/proc/%d/status", pid))) // it has ended then
	owner = -1
	for line := range strings.Lines(string(text)) {
		switch words := strings.Fields(line); {
		case len(words) > 2 && words[0] == "Uid:":
			owner, _ = strconv.Atoi(words[2]) // the effective one
		case len(words) > 1 && words[0] == "TracerPid:":
			tracer, _ = strconv.Atoi(words[1])
		}
	}
	return owner, tracer
}

// exitOf reads from /proc/PID/stat what a process ended with, as a shell has it: its last field
// is the status that wait(2) gives (man 5 proc). It is 0 for whoever may not trace the process.
func exitOf(stat string) *int {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const exitCode = 52 - 2 // pid and comm stand before
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

// isPython is whether the command line is of an interpreter.
func isPython(argv []string) bool {
	return len(argv) > 0 && strings.HasPrefix(path.Base(argv[0]), "python")
}

// script is the file or module that a command line trains with, "" for none.
func script(argv []string) string {
	if module := moduleOf(argv); module != "" && launcherModules[module] == "" {
		return module
	}
	if at := scriptAt(argv); at < len(argv) {
		return path.Base(argv[at])
	}
	return ""
}

// scriptAt is where the python file stands in a command line that is no launcher's own, its length for nowhere.
func scriptAt(argv []string) int {
	isScript := func(word string) bool { return strings.HasSuffix(word, ".py") && programs[path.Base(word)] == "" }
	if at := slices.IndexFunc(argv, isScript); at >= 0 {
		return at
	}
	return len(argv)
}

// oomKills is how many processes of a process's cgroup the kernel has killed for want of memory since that was made:
// a job of Slurm and a container have one of their own, and what is above them has seen others.
// Of those above, the ones count that set a limit, as a job does for its steps.
//
// Source: Linux 6.12, Documentation/admin-guide/cgroup-v2.rst, memory.events, which counts what is below too;
// mm/memcontrol-v1.c, memory.oom_control, which has oom_kill since 4.13.
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
		text, _ := os.ReadFile(filepath.Join(dir, events)) // the uppermost has none
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) == 2 && words[0] == "oom_kill" {
				n, _ := strconv.Atoi(words[1])
				most = max(most, n)
			}
		}
	}
	return most
}
