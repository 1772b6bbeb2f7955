// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"fmt"
	"os"
	"slices"

	"github.com/prometheus/procfs"

	"preflight/facts"
	"preflight/probe/machine"
)

// states maps the numbers in the kernel's include/net/tcp_states.h to the states that matter for a
// rendezvous.
var states = map[uint64]string{
	1: facts.SocketEstablished, 2: facts.SocketCalling, 3: facts.SocketHalfOpen, 8: facts.SocketHungUp, 10: facts.SocketListening,
}

// row is one socket of the kernel's table.
type row struct {
	facts.JobSocket
	inode string // in the form that links of file descriptors have: "socket:[12345]"
}

// tables holds the sockets of each network namespace that contains a process of a job. A container
// has its own namespace.
type tables struct {
	o    machine.Options
	seen map[string][]row
}

// of returns the sockets in the network namespace of a process.
func (t *tables) of(pid int) []row {
	space, err := os.Readlink(t.o.At(fmt.Sprintf("/proc/%d/ns/net", pid)))
	if err != nil {
		return nil // this user may not see the sockets of the process
	}
	if _, read := t.seen[space]; !read {
		t.seen[space] = t.read(t.o.At(fmt.Sprintf("/proc/%d", pid)))
	}
	return t.seen[space]
}

// apart reports whether the network namespace of a process differs from that of preflight.
func (t *tables) apart(pid int) bool {
	space, err := os.Readlink(t.o.At(fmt.Sprintf("/proc/%d/ns/net", pid)))
	own, ownErr := os.Readlink(t.o.At("/proc/self/ns/net"))
	return err == nil && ownErr == nil && space != own
}

// read returns the sockets listed in a directory that contains net/tcp in the form of /proc.
func (t *tables) read(dir string) (rows []row) {
	fs, err := procfs.NewFS(dir)
	if err != nil {
		return nil
	}
	//lint:ignore SA1019 what it recommends has no table of another process
	four, _ := fs.NetTCP()
	//lint:ignore SA1019 as above
	six, _ := fs.NetTCP6()
	for _, line := range append(four, six...) {
		state := states[line.St]
		if state == "" {
			continue
		}
		one := row{facts.JobSocket{State: state, Address: line.LocalAddr.String(), Port: int(line.LocalPort)}, fmt.Sprintf("socket:[%d]", line.Inode)}
		if state != facts.SocketListening {
			one.Remote, one.RemotePort = line.RemAddr.String(), int(line.RemPort)
		}
		rows = append(rows, one)
	}
	return rows
}

// connected records the rendezvous sockets of a process and of the processes below it.
func (p *process) connected(t *tables, ports map[int]bool, own map[string]string) {
	if p.stat.State == "Z" {
		return
	}
	rows := t.of(p.PID)
	p.job.Apart = t.apart(p.PID)
	p.eachBelow(func(below *process) {
		targets, err := below.FileDescriptorTargets()
		if err != nil && p.job.Unread == "" && below == p {
			p.job.Unread = machine.Reason(err)
		}
		for _, one := range rows {
			ofMeeting := ports[one.Port] || ports[one.RemotePort] || one.State == facts.SocketCalling
			if len(p.job.Sockets) == mostSockets || !ofMeeting || !slices.Contains(targets, one.inode) || slices.Contains(p.job.Sockets, one.JobSocket) {
				continue
			}
			one.Interface = own[one.Address]
			p.job.Sockets = append(p.job.Sockets, one.JobSocket)
		}
	})
}

// at returns which processes listen on a port and which connections lead to the port. It reads the
// network namespace of the job's process that listens on the port.
func (t *tables) at(port int, processes []facts.JobProcess) facts.JobPort {
	seen := facts.JobPort{Port: port}
	rows := t.read(t.o.At("/proc"))
	for _, p := range processes {
		if slices.ContainsFunc(p.Sockets, func(s facts.JobSocket) bool { return s.State == facts.SocketListening && s.Port == port }) {
			seen.Holder, rows = p.PID, t.of(p.PID)
			break
		}
	}
	for _, one := range rows {
		switch {
		case one.Port != port:
		case one.State == facts.SocketListening:
			seen.Listening = true
		case one.State == facts.SocketEstablished, one.State == facts.SocketHalfOpen:
			at := slices.IndexFunc(seen.Callers, func(c facts.JobCaller) bool { return c.Address == one.Remote && c.State == one.State })
			if at < 0 {
				at = len(seen.Callers)
				seen.Callers = append(seen.Callers, facts.JobCaller{Address: one.Remote, State: one.State})
			}
			seen.Callers[at].Count++
		}
	}
	return seen
}
