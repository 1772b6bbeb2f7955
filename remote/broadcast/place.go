// SPDX-License-Identifier: Apache-2.0

package broadcast

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"preflight/remote"
)

// place is the connection to one node: a task of a program of many until its agent speaks,
// and from then on; or a start of its own where that came to nothing. What is not said
// otherwise is guarded by the set.
type place struct {
	set   *Set
	node  string
	group int

	command string // "" before Start
	stderr  io.Writer
	written []byte        // first of all, for a start of its own to hear; nil when the agent has spoken
	out     *flow         // what it says, by itself safe for concurrent use
	closed  chan struct{} // by us
	ended   chan struct{} // the process
	exit    remote.Exit   // set before ended is closed
	failure *remote.Error // of the program, or of the start of its own

	// As a task of a program.
	step   *step // nil before it, and when it came to nothing
	task   string
	line   []byte // begun
	joined remote.Joined
	early  [][]byte // lines, before all were heard
	noise  [][]byte // before its agent spoke
	heard  bool
	spoke  bool   // its agent did
	hushed bool   // its standard error has ended
	last   func() // what is left to do then, nil before its command has ended

	needs  []*step // that it said it lacks our binary in, and nobody has read so
	parcel remote.Parcel
	asks   chan remote.Bringing // what becomes of its parcel; nil while it asks for none

	// As a start of its own.
	wanted  bool              // the program came to nothing for it
	own     remote.Connection // nil without
	process *remote.Process   // nil before it runs
}

func newPlace(s *Set, node string, group int) *place {
	return &place{set: s, node: node, group: group, out: newFlow(), closed: make(chan struct{}), ended: make(chan struct{})}
}

// join makes p a task of a program that begins.
func (p *place) join(t *step, task int) {
	p.step, p.task = t, strconv.Itoa(task)
	p.line, p.joined, p.early, p.noise, p.heard = nil, remote.Joined{}, nil, nil, false
	p.hushed = false
	p.answer(remote.AsksAnew)
}

// Start has the node's task hear and be heard.
func (p *place) Start(command string, stderr io.Writer) (*remote.Process, *remote.Error) {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	if p.isClosed() {
		return nil, &remote.Error{Stage: remote.StageSession, Cause: remote.Interrupted, Err: os.ErrClosed}
	}
	p.command, p.stderr = command, stderr
	many := remote.HearsMany(command)
	if many {
		p.set.begin(p.group, command)
	}
	switch {
	case p.wanted, !many:
		p.alone()
	case p.step != nil && p.step.open:
		p.replay()
	}
	return &remote.Process{Stdin: stdin{p}, Stdout: p.out, Wait: p.wait}, nil
}

func (p *place) wait() remote.Exit {
	select {
	case <-p.ended:
		return p.exit
	case <-p.closed:
		return remote.Exit{Status: -1, Missing: true}
	}
}

// take takes a piece of what the task writes.
func (p *place) take(piece []byte) {
	for len(piece) > 0 && p.step != nil {
		line, rest, whole := bytes.Cut(piece, []byte("\n"))
		if piece = rest; len(p.line)+len(line) <= maxHeld {
			p.line = append(p.line, line...)
		}
		if whole {
			line := bytes.Clone(p.line)
			p.line = p.line[:0]
			p.say(line)
		}
	}
}

// say takes a line of the task.
func (p *place) say(line []byte) {
	switch t := p.step; {
	case !p.heard && bytes.Contains(line, []byte(begins)):
		before, node, _ := bytes.Cut(line, []byte(begins))
		if len(before) > 0 {
			p.early = append(p.early, before)
		}
		t.greet(p, strings.TrimSpace(string(node)))
	case !t.open || p.command == "":
		if len(p.early) < maxEarly {
			p.early = append(p.early, line)
		}
	default:
		p.hand(line)
	}
}

// replay hands on what was said before it was believed.
func (p *place) replay() {
	if p.command == "" {
		return
	}
	early := p.early
	p.early = nil
	for _, line := range early {
		if p.step != nil {
			p.hand(line)
		}
	}
}

// hand hands a line on to whoever listens. What is none of ours is kept until the agent
// speaks: a start of its own would say it once more.
func (p *place) hand(line []byte) {
	if before, status, found := bytes.Cut(line, []byte(ends)); found {
		if line = p.joined.Add(before); len(line) > 0 {
			p.out.put(line)
		}
		p.over(string(status))
		return
	}
	if line = p.joined.Add(line); line == nil {
		return
	}
	if !p.spoke && !bytes.Contains(line, []byte("@@preflight ")) {
		if len(p.noise) < maxEarly {
			p.noise = append(p.noise, line)
		}
		return
	}
	if !p.spoke && bytes.Contains(line, []byte("@@preflight need ")) {
		p.needs = append(p.needs, p.step)
	}
	if !p.spoke && bytes.Contains(line, []byte("@@preflight {")) {
		p.spoke, p.written = true, nil
		for _, line := range p.noise {
			p.out.put(append(line, '\n'))
		}
	}
	p.out.put(append(line, '\n'))
}

// over is the end of the task's command. One that ends before the agent spoke is started
// once more on its own, to have the binary delivered or to tell what is wrong.
func (p *place) over(status string) {
	exit := exitOf(status)
	if p.spoke {
		finish := func() { p.finish(exit, nil) }
		if p.hushed || exit == (remote.Exit{}) {
			finish()
			return
		}
		p.last = finish
		time.AfterFunc(grace, func() {
			p.set.mu.Lock()
			defer p.set.mu.Unlock()
			finish()
		})
		return
	}
	p.step = nil
	p.alone()
}

// hush is the end of the task's standard error, which comes before or behind that of its
// output: its last words may tell why.
func (p *place) hush() {
	p.hushed = true
	if p.last != nil {
		p.last()
	}
}

// finish is the end of the process.
func (p *place) finish(exit remote.Exit, failure *remote.Error) {
	if p.step != nil {
		t := p.step
		p.step = nil
		defer t.leave()
	}
	select {
	case <-p.ended:
		return
	default:
	}
	p.exit, p.failure = exit, failure
	close(p.ended)
	p.out.end()
}

// alone gives the node a start of its own, when somebody wants it.
func (p *place) alone() {
	p.answer(remote.AsksAnew)
	p.step, p.wanted = nil, true
	if p.command == "" || p.isClosed() || p.set.closed || p.own != nil {
		return
	}
	own := newOwn(&p.set.engine, p.node)
	p.own = own
	command, stderr := p.command, p.stderr
	p.set.running.Go(func() {
		process, failure := own.Start(command, stderr)
		p.set.mu.Lock()
		if failure != nil {
			p.finish(remote.Exit{Status: -1, Missing: true}, failure)
			p.set.mu.Unlock()
			return
		}
		p.process = process
		written := p.written
		p.set.mu.Unlock()
		_, _ = process.Stdin.Write(written)
		_, _ = io.Copy(p.out, process.Stdout)
		exit := process.Wait()
		p.set.mu.Lock()
		defer p.set.mu.Unlock()
		p.finish(exit, nil)
	})
}

// stdin is what the node hears.
type stdin struct{ p *place }

func (w stdin) Write(text []byte) (int, error) {
	p := w.p
	p.set.mu.Lock()
	process, step, task := p.process, p.step, p.task
	shell := !p.spoke
	if process == nil && shell && p.written == nil {
		p.written = bytes.Clone(text)
	}
	p.set.mu.Unlock()
	switch {
	case process != nil:
		return process.Stdin.Write(text)
	case step != nil && shell:
		step.begin(task, text)
	case step != nil:
		step.say(task, text)
	}
	return len(text), nil
}

func (w stdin) Close() error {
	p := w.p
	p.set.mu.Lock()
	process, step, task := p.process, p.step, p.task
	p.set.mu.Unlock()
	switch {
	case process != nil:
		return process.Stdin.Close()
	case step != nil:
		step.bid(task)
	}
	return nil
}

// Alive is whether the start of its own says so: no program says anything of a task that is silent.
func (p *place) Alive() bool {
	own := p.connection()
	return own != nil && own.Alive()
}

func (p *place) Wait() error {
	select {
	case <-p.ended:
	case <-p.closed:
	}
	if own := p.connection(); own != nil {
		return own.Wait()
	}
	return io.EOF
}

func (p *place) Broken() *remote.Error {
	p.set.mu.Lock()
	own, failure := p.own, p.failure
	p.set.mu.Unlock()
	if failure != nil || own == nil {
		return failure
	}
	return own.Broken()
}

func (p *place) connection() remote.Connection {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	return p.own
}

// LookOut watches what is then the way to the node.
func (p *place) LookOut(ctx context.Context) remote.Lookout { return &lookout{p: p, ctx: ctx} }

type lookout struct {
	p   *place
	ctx context.Context
}

func (l *lookout) Tell(failure *remote.Error) {
	if own := l.p.connection(); own != nil {
		of := own.LookOut(l.ctx)
		of.Tell(failure)
		of.Dismiss()
		return
	}
	if failure != nil && !l.p.spoke {
		failure.Err = fmt.Errorf("nothing came of its task within %s", failure.Detail["after"])
	}
}

func (*lookout) Dismiss() {}

func (p *place) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// Close leaves the program, whose task hears that nothing more comes.
func (p *place) Close() error {
	p.set.mu.Lock()
	if p.isClosed() {
		p.set.mu.Unlock()
		return nil
	}
	close(p.closed)
	p.out.end()
	own, step := p.own, p.step
	if step != nil {
		if p.asks == nil || step.settled == nil { // what is being brought is its task's to remove, behind the last of it
			step.dismiss(p)
		}
		step.leave()
	}
	p.set.mu.Unlock()
	if own != nil {
		return own.Close()
	}
	return nil
}
