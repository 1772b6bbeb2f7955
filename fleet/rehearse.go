// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"preflight/agent"
	"preflight/drill/rehearse"
	"preflight/facts"
	"preflight/launch"
)

// Rehearsal holds the settings of a rehearsal of the launch.
type Rehearsal struct {
	Time    time.Duration // time limit; 0 for no rehearsal
	StandIn launch.StandIn
	// Busy means that the rehearsal also uses GPUs on which other programs run.
	Busy bool
}

const (
	// deliverTime limits the delivery of the stand-in script to a node.
	deliverTime = 10 * time.Second
	// graceTime is how long the other ranks may still report after the first failure.
	graceTime = 6 * time.Second
	// endTime limits the end of the rehearsal on a node.
	endTime = 10 * time.Second
)

// standInDirs lists the directories to try for the stand-in script. The path must be the same on
// all nodes. /dev/shm exists on every node and is not shared between nodes.
var standInDirs = []string{"/dev/shm", "/tmp"}

func (r *run) noRehearsed() string {
	switch {
	case r.Rehearsal.Time == 0:
		return "only with --rehearse"
	case r.Rehearsal.StandIn.Words == nil && r.Rehearsal.StandIn.Refused == "":
		return "no launch command to rehearse"
	}
	return ""
}

// rehearsing is the state of a running rehearsal.
type rehearsing struct {
	*run
	delivery rehearse.Delivery
	began    time.Time

	mu     sync.Mutex // guards the fields below, and Rehearsed of all nodes
	failed time.Time  // when the first rank failed or the first launcher ended badly; zero if none did
	ended  map[string]bool
	ending bool // whether preflight ends the launch, which makes ranks report that they are abandoned
}

// rehearse runs the user's own launcher with the stand-in script. Every node that was reached takes
// part. It ends the launcher and everything that the launcher started, here and on all nodes.
func (r *run) rehearse(ctx context.Context, d Drill) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	head := &facts.Rehearsed{Ranks: []facts.RehearsedRank{}}
	r.Head.Rehearsed = head
	for _, m := range r.members {
		m.Rehearsed = &facts.Rehearsed{Ranks: []facts.RehearsedRank{}}
	}
	if head.Refused = r.cannotRehearse(); head.Refused != "" {
		return
	}
	r.takeTurn(ctx, r.members, r.Rehearsal.Time/runsAhead)
	s := &rehearsing{run: r, ended: map[string]bool{}}
	if !s.deliver(ctx, d) {
		return
	}
	defer s.keepEnvFile()()
	s.began = time.Now()
	s.emit(Event{Phase: d.Phase, Step: Began})
	program := s.start(ctx)
	s.watch(ctx, program)
	s.end(ctx, program)
	s.emit(Event{Phase: d.Phase, Step: Ended})
	r.isolate(ctx)
}

// cannotRehearse returns why the launch cannot be rehearsed, or "" if it can.
func (r *run) cannotRehearse() string {
	if r.Rehearsal.StandIn.Refused != "" {
		return r.Rehearsal.StandIn.Refused
	}
	if len(r.members) < len(r.fleet.Nodes) {
		return fmt.Sprintf("only %d of %d nodes were reached", len(r.members), len(r.fleet.Nodes))
	}
	inside := func(m *member) bool { return m.SSH != nil && m.SSH.Inside != nil }
	if !r.Prediction.Srun && !r.Rehearsal.StandIn.Everywhere && slices.ContainsFunc(r.members, inside) {
		return "the command would start its ranks outside the container that --in enters"
	}
	if r.Rehearsal.Busy || r.Prediction.Accelerator == "cpu" {
		return ""
	}
	for _, m := range r.members {
		if why := r.inUse(m); why != "" {
			return m.Name + ": " + why + ": repeat --rehearse to rehearse all the same"
		}
	}
	return ""
}

// deliver puts the stand-in script on every node, in the first directory that all nodes have. It
// reports whether all nodes have the script.
func (s *rehearsing) deliver(ctx context.Context, d Drill) bool {
	for _, dir := range standInDirs {
		s.delivery = rehearse.Delivery{ID: "preflight-" + strings.ToLower(s.token), Dir: dir, Name: "train.py"}
		if script := s.Rehearsal.StandIn.Script; script != "" {
			s.delivery.Name = filepath.Base(script)
		}
		s.delivery.Text = rehearse.Script(s.parameters())
		own, giveUp := context.WithCancel(ctx)
		context.AfterFunc(ctx, giveUp)
		s.each(ctx, d.Phase+" delivery", s.members, deliverTime, func(_ context.Context, m *member) error {
			report, err := agent.Rehearse.Start(own, m.agent, s.delivery, deliverTime, func(report rehearse.Report) { s.learn(m, report) })
			m.lose(err)
			m.Rehearsed.Undelivered = report.Undelivered
			if err != nil {
				m.Rehearsed.Undelivered = lostReason(err)
			}
			return err
		})
		if !slices.ContainsFunc(s.members, func(m *member) bool { return m.Rehearsed.Undelivered != "" }) {
			return true
		}
		giveUp()
	}
	return false
}

// keepEnvFile returns a function that restores the .deepspeed_env of the working directory.
// accelerate appends its whole environment to that file at every launch with a DeepSpeed hostfile
// (accelerate/commands/launch.py, deepspeed_launcher, 1.15), and later launches would export it.
func (s *rehearsing) keepEnvFile() (restore func()) {
	if s.Prediction.Program != launch.ProgramAccelerate || s.Rehearsal.StandIn.Everywhere {
		return func() {}
	}
	name := filepath.Join(s.Prediction.WorkDir, ".deepspeed_env")
	before, err := os.ReadFile(name)
	return func() {
		after, _ := os.ReadFile(name) // a file that is gone needs no restoring
		var failed error
		switch {
		case bytes.Equal(before, after):
		case errors.Is(err, fs.ErrNotExist):
			failed = os.Remove(name)
		case err == nil:
			failed = os.WriteFile(name, before, 0o644)
		}
		if failed != nil {
			s.Head.Rehearsed.Left = append(s.Head.Rehearsed.Left, failed.Error())
		}
	}
}

// parameters returns the parameters of the stand-in script.
func (s *rehearsing) parameters() rehearse.Parameters {
	p, in := s.Prediction, s.Rehearsal.StandIn
	parameters := rehearse.Parameters{
		ID: s.delivery.ID, Seconds: s.Rehearsal.Time.Seconds() * 0.8, Script: in.Script, Module: in.Module,
		GPU: p.Accelerator != "cpu", DeepSpeed: p.Config != nil, MPI: p.StartedBy().MPIRun != "",
	}
	if p.Accelerator == "cpu" {
		parameters.Backend = "gloo"
	}
	for _, place := range p.Places {
		if place.Role == facts.RoleOutput {
			parameters.Directories = append(parameters.Directories, place.Path)
		}
	}
	for _, output := range in.Outputs {
		if !filepath.IsAbs(output) {
			output = filepath.Join(p.WorkDir, output)
		}
		parameters.Outputs = append(parameters.Outputs, output)
	}
	return parameters
}

// start starts the launcher, here or on every node. It returns nil if the nodes start it.
func (s *rehearsing) start(ctx context.Context) *rehearse.Program {
	in, seconds := s.Rehearsal.StandIn, int(s.Rehearsal.Time.Seconds())
	if !in.Everywhere {
		return rehearse.Start(s.delivery.ID, in.On(0, s.delivery.Path(), seconds), s.Prediction.WorkDir, nil)
	}
	s.members.each(func(m *member) {
		ctx, cancel := within(ctx, deliverTime)
		defer cancel()
		start := rehearse.Control{ID: s.delivery.ID, Command: in.On(m.position, s.delivery.Path(), seconds), Dir: s.Prediction.WorkDir, Env: s.Prediction.Exports}
		if m.Python != nil {
			start.Python = m.Python.Path
		}
		done, err := agent.ControlRehearsal.Ask(ctx, m.agent, start)
		s.mu.Lock()
		defer s.mu.Unlock()
		m.Rehearsed.Program = done.Program
		if problem := done.Problem; err != nil || problem != "" {
			m.Rehearsed.Undelivered = cmp.Or(problem, lostReason(err))
		}
	})
	return nil
}

// learn records what a node reports.
func (s *rehearsing) learn(m *member, report rehearse.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if report.Ended {
		s.ended[m.Name] = true
	}
	s.take(m, report.Lines)
}

// take records lines of a node's ranks. The caller holds mu.
func (s *rehearsing) take(m *member, lines []rehearse.Line) {
	for _, line := range lines {
		i := slices.IndexFunc(m.Rehearsed.Ranks, func(r facts.RehearsedRank) bool { return r.PID == line.PID })
		if i < 0 {
			i = len(m.Rehearsed.Ranks)
			m.Rehearsed.Ranks = append(m.Rehearsed.Ranks, facts.RehearsedRank{PID: line.PID, Seconds: map[string]float64{}, Stage: line.Stage})
		}
		rank := &m.Rehearsed.Ranks[i]
		rank.Rank, rank.Local = numberOf(line.Rank), numberOf(line.Local)
		at := time.Since(s.began).Seconds()
		if line.Event != "building" {
			rank.Building = ""
		}
		switch line.Event {
		case "begin":
			rank.Stage = line.Stage
			rank.Stalled, rank.Idle = nil, false
		case "done":
			rank.Seconds[line.Stage] = line.Seconds
		case "failed":
			rank.Stage, rank.End, rank.Error, rank.Trace, rank.At = line.Stage, facts.EndFailed, line.Error, line.Trace, at
			rank.Detail = line.Detail
		case "stalled":
			if rank.Stalled != nil && line.Sockets != nil && s.failed.IsZero() {
				s.failed = time.Now() // the second report: no answer for 14 s
			}
			rank.Stalled, rank.Idle = line.Sockets, line.Idle
		case "building":
			rank.Building = line.What
		case "unwritten":
			rank.Unwritten = line.Error
		case "unknown":
			rank.Unknown = append(rank.Unknown, line.Detail)
		case "ended":
			if isOurs := s.ending && line.How != facts.EndFinished && line.How != facts.EndDeadline; rank.End == "" && !isOurs {
				rank.End, rank.Trace, rank.At = line.How, line.Trace, at
			}
		}
		if rank.End != "" && rank.End != facts.EndFinished && s.failed.IsZero() {
			s.failed = time.Now()
		}
	}
}

// numberOf returns a rank's number, -1 if it has none.
func numberOf(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return -1
}

// watch waits until the launch has ended, until the other ranks had enough time to report after the
// first failure, or until the time limit.
func (s *rehearsing) watch(ctx context.Context, program *rehearse.Program) {
	end := s.began.Add(s.Rehearsal.Time)
	for ctx.Err() == nil && time.Now().Before(end) {
		time.Sleep(50 * time.Millisecond)
		s.mu.Lock()
		over := program != nil && program.HasEnded()
		if program == nil {
			over = !slices.ContainsFunc(s.members, func(m *member) bool {
				return !s.ended[m.Name] && m.Rehearsed.Program != nil && m.Rehearsed.Program.Problem == "still running"
			})
			if !over && len(s.ended) > 0 && s.failed.IsZero() && !s.allFinished() {
				s.failed = time.Now()
			}
		}
		late := !s.failed.IsZero() && time.Since(s.failed) > graceTime
		s.mu.Unlock()
		if over || late {
			return
		}
	}
}

// allFinished reports whether every rank that has begun has finished. The caller holds mu.
func (s *rehearsing) allFinished() bool {
	for _, m := range s.members {
		if slices.ContainsFunc(m.Rehearsed.Ranks, func(r facts.RehearsedRank) bool { return r.End != facts.EndFinished }) || len(m.Rehearsed.Ranks) == 0 {
			return false
		}
	}
	return true
}

// end ends the launcher and all its processes, here and on the nodes, and records what they were
// doing.
func (s *rehearsing) end(ctx context.Context, program *rehearse.Program) {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	if program != nil {
		s.mu.Lock()
		program.HasEnded() // records how long it ran by itself
		swept := rehearse.Sweep(s.delivery.ID)
		s.Head.Rehearsed.Program, s.Head.Rehearsed.Ending, s.Head.Rehearsed.Left = program.Facts(), swept.Ended, swept.Left
		s.mu.Unlock()
	}
	s.members.each(func(m *member) {
		ctx, cancel := within(ctx, endTime)
		defer cancel()
		done, err := agent.ControlRehearsal.Ask(ctx, m.agent, rehearse.Control{ID: s.delivery.ID})
		m.lose(err)
		if err != nil {
			return // its agent ends everything when its connection ends
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.take(m, done.Lines)
		m.Rehearsed.Ending, m.Rehearsed.Left = done.Ending, done.Left
		if done.Program != nil {
			m.Rehearsed.Program = done.Program
		}
	})
}
