// SPDX-License-Identifier: Apache-2.0

// Package broadcast makes connections to many nodes of one program that starts a task on
// each: whose standard input goes to all of them, and whose standard output is what all of
// them say, mixed. A carrier tells it by an [Engine] how that program is started and how
// what comes of it is told apart.
//
// It refuses to let one node cost another anything. Before every task of a program has been
// heard, nothing of any is believed: where one is not, those that were are started once more
// without it, and it gets a start of its own, as does a node that lacks our binary where
// nothing brings it to many (bring.go). That is no second try of a way that failed: nothing was said over it yet, and a start of its own
// is another way. What a start of its own meets is what is told of the node.
//
// It knows no engine by name, and sends nothing to a task but short lines
// (task.go of package remote).
package broadcast

import (
	"io"
	"os/exec"
	"slices"
	"sync"
	"time"

	"preflight/internal/hostsys"
	"preflight/remote"
)

// Engine is a program that reaches many nodes.
type Engine struct {
	Name string
	// Program runs argv, a script for /bin/sh, on every node, as task i on nodes[i]. For one node alone nothing has
	// to be told apart: what it says is what comes out.
	Program func(nodes, argv []string) *exec.Cmd
	// Typed is whether a command goes to its shell on standard input, because the program has no room for it
	// among its arguments.
	Typed bool
	// Task is the variable by which a task knows its number, and Node the one with the
	// name of its node, "" where there is none: a task elsewhere than it should be costs
	// the whole program.
	Task, Node string
	// Step is the variable with what Bring calls a program that runs by.
	Step string
	// Bring puts a file of ours on all nodes of such a program, at a path where none is, by another; nil
	// where none can.
	Bring func(step, file, path string) hostsys.Child
	// Sheds are the variables, one at least, that a task takes from itself first: what the program
	// tells it of itself and of our job, which is none of the launch's.
	Sheds []string
	// Split hands to each task the pieces of what it wrote, in their order, until from ends.
	Split func(from io.Reader, to func(task int, piece []byte))
	// Said tells which task a line of the program's standard error is of, and what the task
	// said; -1 is the program's own.
	Said func(line string) (task int, text string)
	// Explain is why the program has come no further, by its own words, among which are those
	// of a command that had begun; nil where these say nothing.
	Explain func(said string, came State) *remote.Error
	// Hangs is whether the program may go on for ever when it has said why it will not begin.
	Hangs bool
	// Silent is what may be the matter where the program never begins and says nothing, "" for
	// nothing in particular.
	Silent string

	Most     int           // nodes of one program
	Patience time.Duration // for every task of a program to be heard
}

// State is how far a program has come.
type State int

const (
	Going  State = iota // it goes on, and the command has not begun
	Failed              // it ended before the command began
	Broke               // it ended before the command did
)

// Set is the nodes of a run, in programs of Engine.Most nodes. It is safe for concurrent use.
type Set struct {
	engine  Engine
	running sync.WaitGroup

	mu     sync.Mutex // over all below, and over what is said to be so elsewhere
	groups [][]*place
	places map[string]*place // that nobody has taken yet
	steps  []*step
	closed bool
}

// New is a Set of these nodes, in the order in which the engine numbers them.
func New(engine Engine, nodes []string) *Set {
	s := &Set{engine: engine, places: map[string]*place{}}
	for group := range slices.Chunk(nodes, engine.Most) {
		var places []*place
		for _, node := range group {
			if s.places[node] == nil {
				p := newPlace(s, node, len(s.groups))
				s.places[node] = p
				places = append(places, p)
			}
		}
		s.groups = append(s.groups, places)
	}
	return s
}

// Connect is the connection to a node: its place among the tasks of a program the first
// time, and a start of its own for whoever comes again or is not of the set.
func (s *Set) Connect(node string) remote.Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[node]
	if p == nil {
		return newOwn(&s.engine, node)
	}
	delete(s.places, node)
	return p
}

// Close ends every program, and waits until it has ended.
func (s *Set) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, step := range s.steps {
		step.end()
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// begin starts the program of a group, the first time. s.mu is held.
func (s *Set) begin(group int, command string) {
	places := s.groups[group]
	if s.groups[group] = nil; len(places) > 0 {
		s.start(places, command, true)
	}
}

// start starts one program for these places, which may be the second of theirs. s.mu is held.
func (s *Set) start(places []*place, command string, again bool) {
	t := &step{set: s, places: places, command: command, again: again}
	for i, p := range places {
		p.join(t, i)
	}
	if len(places) < 2 || s.closed || !t.start() {
		t.dissolve()
		return
	}
	s.steps = append(s.steps, t)
	for _, p := range places { // what the program before this one was told
		if task, line := p.task, p.written; len(line) > 0 {
			s.running.Go(func() { t.begin(task, line) })
		}
	}
}
