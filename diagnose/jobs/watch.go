// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"preflight/facts"
	"preflight/probe/machine"
)

const (
	// mostFlows limits how many connections of a rank are recorded, the busiest first.
	mostFlows = 64
	// mostWorkers limits how many processes of a rank are recorded. It is larger than the usual
	// number of a DataLoader's workers.
	mostWorkers = 64
)

// moment is what a process had done until a moment.
type moment struct {
	at    time.Time
	cpu   uint    // time on CPUs, in ticks
	files int64   // bytes read and written, -1 if this user may not see it
	flows []*flow // nil if unknown
	below map[int]uint
}

// flow is a TCP connection with the bytes that it has carried since it was opened.
type flow struct {
	facts.JobFlow
	Port  int // local port
	inode string
}

// watch records what the ranks do until a time has passed, and what NCCL answers at the beginning and
// at the end. It returns nil if no rank of this machine is to be asked for NCCL's answer.
func watch(ctx context.Context, o machine.Options, ranks []*process, ports map[int]bool, t *tables, lasting time.Duration) *facts.RAS {
	take := func() (moments []moment) {
		open, err := flows(o)
		for _, p := range ranks {
			m := p.moment(open)
			if err != nil || p.job.Apart {
				m.flows = nil
			}
			moments = append(moments, m)
		}
		return moments
	}
	address := rasPort(ranks, t)
	var before *status
	asked := make(chan error, 1)
	go func() {
		var err error
		if address != "" {
			before, err = askRAS(ctx, address)
		}
		asked <- err
	}()
	first := take()
	select {
	case <-time.After(lasting):
	case <-ctx.Done():
	}
	for i, last := range take() {
		ranks[i].job.Watch = ranks[i].between(first[i], last, ports)
		ranks[i].settle()
	}
	err := <-asked
	switch {
	case address == "":
		return nil
	case err != nil:
		return compared(address, nil, nil, err)
	}
	after, err := askRAS(ctx, address)
	return compared(address, before, after, err)
}

// settle reads the state of a rank again. A rank that just ran may now sleep.
func (p *process) settle() {
	if stat, err := p.Stat(); err == nil {
		p.job.State = stat.State
	}
	if wchan, err := p.Wchan(); err == nil && p.job.WaitsIn == "" && wchan != "0" {
		p.job.WaitsIn = wchan
	}
}

// moment reads what a rank has done so far, with the processes below it.
func (p *process) moment(open map[string]*flow) moment {
	m := moment{at: time.Now(), flows: []*flow{}, below: map[int]uint{}}
	p.eachBelow(func(below *process) {
		stat, err := below.Stat()
		if err != nil {
			return // it has ended
		}
		if m.below[below.PID] = stat.UTime + stat.STime; below == p {
			m.cpu = m.below[p.PID]
		}
		if io, err := below.IO(); err != nil {
			m.files = -1
		} else if m.files >= 0 {
			m.files += int64(io.RChar + io.WChar)
		}
		targets, _ := below.FileDescriptorTargets() // none of another user's process
		for _, target := range targets {
			if one := open[target]; one != nil && !slices.Contains(m.flows, one) {
				m.flows = append(m.flows, one)
			}
		}
	})
	return m
}

// between returns what a rank has done between two moments.
func (p *process) between(first, last moment, ports map[int]bool) *facts.Watch {
	seconds := last.at.Sub(first.at).Seconds()
	used := func(last, first uint) float64 { return float64(last-min(first, last)) / ticks / seconds }
	w := &facts.Watch{Seconds: seconds, CPU: used(last.cpu, first.cpu)}
	if first.files >= 0 && last.files >= 0 {
		moved := max(0, last.files-first.files)
		w.Files = &moved
	}
	if first.flows != nil && last.flows != nil {
		w.Flows = []facts.JobFlow{}
		for _, now := range last.flows {
			if ports[now.Port] || ports[now.RemotePort] {
				continue // ranks and launchers ask the store all the time
			}
			one := now.JobFlow
			if at := slices.IndexFunc(first.flows, func(f *flow) bool { return f.inode == now.inode }); at >= 0 {
				one.Bytes = max(0, one.Bytes-first.flows[at].Bytes)
			}
			w.Flows = append(w.Flows, one)
		}
		slices.SortStableFunc(w.Flows, func(a, b facts.JobFlow) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Unsent+b.Unread, a.Unsent+a.Unread), strings.Compare(a.Remote, b.Remote), cmp.Compare(a.RemotePort, b.RemotePort))
		})
		w.Flows = w.Flows[:min(len(w.Flows), mostFlows)]
	}
	p.eachBelow(func(below *process) {
		if below == p || len(w.Workers) == mostWorkers || !isPython(below.argv) {
			return
		}
		stat, err := below.Stat()
		if err != nil {
			return
		}
		one := facts.JobWorker{PID: below.PID, State: stat.State, CPU: used(last.below[below.PID], first.below[below.PID])}
		if wchan, err := below.Wchan(); err == nil && wchan != "0" {
			one.WaitsIn = wchan
		}
		w.Workers = append(w.Workers, one)
	})
	return w
}

// reading returns the file, terminal, pipe or HOST:PORT that the first thread of a process reads or
// locks, "" if it does neither. The kernel shows the system call and its first argument, which is the
// file descriptor, only to users who may trace the process.
func (p *process) reading(o machine.Options, rows []row) string {
	words := strings.Fields(machine.Line(o.At(fmt.Sprintf("/proc/%d/syscall", p.PID))))
	if len(words) < 2 || !slices.Contains(readCalls, words[0]) {
		return ""
	}
	fd, err := strconv.ParseInt(words[1], 0, 32)
	if err != nil {
		return ""
	}
	target, _ := os.Readlink(o.At(fmt.Sprintf("/proc/%d/fd/%d", p.PID, fd)))
	if at := slices.IndexFunc(rows, func(r row) bool { return r.inode == target }); at >= 0 {
		return net.JoinHostPort(rows[at].Remote, strconv.Itoa(rows[at].RemotePort))
	}
	if fd == 0 {
		return "standard input"
	}
	return target
}
