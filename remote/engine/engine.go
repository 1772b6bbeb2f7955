// SPDX-License-Identifier: Apache-2.0

// Package engine makes connections of programs that run a command on one node: srun, mpirun and
// kubectl exec. A carrier describes its program by an [Engine]. What the command reads and writes is the
// program's standard input and output, and why no command runs is what the program says on its standard error.
//
// It knows no program by name.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"preflight/internal/hostsys"
	"preflight/remote"
)

const (
	// grace is how long a program may take to end when it is told to, and its pipes may stay open after it.
	grace = time.Second
	// maxAsked is more pieces of text than any program needs to say why it will not begin.
	maxAsked = 1000
)

// Engine is a program that reaches nodes.
type Engine struct {
	Name string
	// Program runs argv, a script for /bin/sh, on a node.
	Program func(node string, argv []string) *exec.Cmd
	// Typed is whether a command goes to its shell on standard input, because the program has no room for it
	// among its arguments.
	Typed bool
	// Sheds are the variables that the script unsets first: what the program tells it of itself and of our
	// job, which is none of the launch's.
	Sheds []string
	// Explain is why the program has come no further, by its own words, among which are those
	// of a command that had begun; nil where these say nothing.
	Explain func(said string, came State) *remote.Error
	// Hangs is whether the program may go on for ever when it has said why it will not begin.
	Hangs bool
	// Silent is what may be the matter where the program never begins and says nothing, "" for
	// nothing in particular.
	Silent string

	running sync.WaitGroup
}

// longestNaming is how long we wait for a name server: a program needs no address from us.
const longestNaming = time.Second

// Address returns where a node's name leads from here, for the report, "" for nowhere.
func Address(ctx context.Context, names *hostsys.Names, node string) string {
	ctx, cancel := context.WithTimeout(ctx, longestNaming)
	defer cancel()
	found, err := names.LookupNetIP(ctx, "ip", node)
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0].Unmap().String()
}

// State is how far a program has come.
type State int

const (
	Going  State = iota // it goes on, and the command has not begun
	Failed              // it ended before the command began
	Broke               // it ended before the command did
)

// connection is a program for one node, from which one command is started.
type connection struct {
	engine *Engine
	node   string

	once   sync.Once
	closed chan struct{}

	mu     sync.Mutex
	cmd    *exec.Cmd // nil before Start
	ended  <-chan struct{}
	pipes  []io.Closer
	stderr io.Writer   // of the command
	said   remote.Tail // by the program
	begun  bool        // the command has
	status string      // of the command, "" before it has ended
	asked  int         // lines of it that may tell why
	why    *remote.Error
	cut    bool   // it was we who ended it
	before string // what the program had said by then
}

// Connect returns the connection to a node. The program starts with the command.
func (e *Engine) Connect(node string) remote.Connection {
	return &connection{engine: e, node: node, closed: make(chan struct{})}
}

// Close waits until all programs have ended whose connections were closed.
func (e *Engine) Close() { e.running.Wait() }

// What the script says on standard error before and after the command.
const (
	begins = "@@preflight-task "
	ends   = "@@preflight-ended "
)

// script runs a command and says on its standard error when it begins and how it ends: what
// comes before and behind is the program's own. No program is told of a command that fails,
// for many end with a banner then.
const script = `echo "` + begins + `begins here" >&2; /bin/sh -c "$1"; echo "` + ends + `$? and nothing more comes" >&2`

// typed has a script for a command read that.
const typed = `IFS= read -r command && set -- "$command" || exit; `

// Start runs the command, which is for a shell, on the node.
func (c *connection) Start(command string, stderr io.Writer) (*remote.Process, *remote.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := func(err error) (*remote.Process, *remote.Error) {
		if short := remote.Short(remote.StageSession, err); short != nil {
			return nil, short
		}
		return nil, &remote.Error{Stage: remote.StageSession, Cause: remote.Unexpected, Err: err}
	}
	if c.isClosed() {
		return failed(os.ErrClosed)
	}
	// Pipes of our own: those of exec.Cmd are closed when it has ended, read or not.
	theirIn, stdin, err := os.Pipe()
	if err != nil {
		return failed(err)
	}
	defer theirIn.Close()
	stdout, theirOut, err := os.Pipe()
	if err != nil {
		stdin.Close()
		return failed(err)
	}
	defer theirOut.Close()
	c.pipes, c.stderr = []io.Closer{stdin, stdout}, stderr
	c.said.Full = func() {} // the caller's has a limit
	first := ""
	if len(c.engine.Sheds) > 0 {
		first = "unset " + strings.Join(c.engine.Sheds, " ") + "; "
	}
	argv, input := []string{"/bin/sh", "-c", first + script, "preflight", command}, ""
	if c.engine.Typed {
		argv, input = []string{"/bin/sh", "-c", first + typed + script}, command+"\n"
	}
	cmd := c.engine.Program(c.node, argv)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = theirIn, theirOut, &lines{each: c.hear}, grace
	ended, err := hostsys.Start(cmd)
	if err == nil {
		_, err = io.WriteString(stdin, input) // less than a pipe holds
	}
	if err != nil {
		stdin.Close()
		stdout.Close()
		return failed(err)
	}
	c.cmd, c.ended = cmd, ended
	c.engine.running.Go(func() { <-ended })
	return &remote.Process{Stdin: stdin, Stdout: stdout, Wait: c.exit}, nil
}

// hear takes lines of standard error: the program's, and the command's between our two.
func (c *connection) hear(said string) {
	// Whoever takes them may close us for there being too much.
	_, _ = io.WriteString(c.stderr, c.heard(said))
}

// heard returns the lines without ours.
func (c *connection) heard(said string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, rest, found := strings.Cut(said, begins+"begins here\n"); found && !c.begun {
		c.begun = true
		said = before + rest
	}
	if before, rest, found := strings.Cut(said, ends); found && c.begun && c.status == "" {
		c.status, rest, _ = strings.Cut(rest, "\n")
		said = before + rest
	}
	_, _ = io.WriteString(&c.said, said) // never fails
	if c.asked++; c.engine.Hangs && c.asked < maxAsked && !c.begun && c.why == nil && !c.cut {
		if c.why = c.engine.Explain(c.said.Text(), Going); c.why != nil {
			go c.Close()
		}
	}
	return said
}

// exit is how the command ended, or the program where that ended before it as if all were well. Of a program that
// we end nobody waits to hear.
func (c *connection) exit() remote.Exit {
	select {
	case <-c.ended:
	case <-c.closed:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status == "" && !c.cut && c.cmd.ProcessState.ExitCode() >= 0 {
		return remote.Exit{Status: c.cmd.ProcessState.ExitCode()}
	}
	return exitOf(c.status)
}

// exitOf is the end of a command whose shell says its status.
func exitOf(said string) remote.Exit {
	word, _, _ := strings.Cut(said, " ")
	code, err := strconv.Atoi(word)
	switch {
	case err != nil:
		return remote.Exit{Status: -1, Missing: true}
	case code > 128:
		name := unix.SignalName(syscall.Signal(code - 128))
		if name == "" {
			name = strconv.Itoa(code - 128)
		}
		return remote.Exit{Status: -1, Signal: strings.TrimPrefix(name, "SIG")}
	}
	return remote.Exit{Status: code}
}

// Alive is false: no program says anything of a node that is silent.
func (c *connection) Alive() bool { return false }

// Wait returns when the program has ended.
func (c *connection) Wait() error {
	select {
	case <-c.ended:
	case <-c.closed:
	}
	return io.EOF
}

// Broken is what the program says of a command that was not to be had, or was taken away.
func (c *connection) Broken() *remote.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		why := *c.why
		return &why
	}
	if c.cmd == nil || c.cut || c.status != "" {
		return nil
	}
	select {
	case <-c.ended:
	default:
		return nil
	}
	if c.begun {
		return c.engine.Explain(c.said.Text(), Broke)
	}
	return c.engine.Explain(c.said.Text(), Failed)
}

// LookOut watches a program that keeps waiting: what it has said so far may be why.
func (c *connection) LookOut(context.Context) remote.Lookout { return lookout{c} }

type lookout struct{ connection *connection }

func (l lookout) Tell(failure *remote.Error) {
	c := l.connection
	c.mu.Lock()
	defer c.mu.Unlock()
	if failure == nil || c.cmd == nil {
		return
	}
	name := c.engine.Name
	why := c.engine.Explain(c.before, Going)
	switch {
	case c.begun:
		failure.Err = fmt.Errorf("preflight's command has started there, and nothing more came through %s within %s", name, failure.Detail["after"])
	case why != nil:
		failure.Cause, failure.Err = why.Cause, fmt.Errorf("still waiting after %s: %w", failure.Detail["after"], why.Err)
	default:
		text := fmt.Sprintf("nothing came through %s within %s, and it printed no error", name, failure.Detail["after"])
		switch {
		case c.before != "":
			text = fmt.Sprintf("nothing came through %s within %s; it printed: %s", name, failure.Detail["after"], c.before)
		case c.engine.Silent != "":
			text += ": " + c.engine.Silent
		}
		failure.Err = errors.New(text)
	}
}

func (lookout) Dismiss() {}

func (c *connection) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Close ends the program: with its standard input, at which a command of ours ends by itself and removes what it
// must, then by the signal at which the program ends its command, and at last without it.
func (c *connection) Close() error {
	c.once.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(c.closed)
		for _, pipe := range c.pipes {
			pipe.Close()
		}
		if c.cmd == nil {
			return
		}
		select {
		case <-c.ended:
			return
		default:
		}
		c.cut, c.before = true, c.said.Text()
		go func() {
			for _, end := range []func(){
				func() { _ = c.cmd.Process.Signal(unix.SIGTERM) },
				func() { _ = hostsys.KillGroup(c.cmd) },
			} {
				select {
				case <-c.ended:
					return
				case <-time.After(grace):
					end()
				}
			}
		}()
	})
	return nil
}

// lines hands on whole lines, or a longer piece of one.
type lines struct {
	each  func(said string)
	begun []byte
}

const longestWord = 64 << 10

func (l *lines) Write(text []byte) (int, error) {
	l.begun = append(l.begun, text...)
	whole := bytes.LastIndexByte(l.begun, '\n') + 1
	if len(l.begun)-whole > longestWord {
		whole = len(l.begun)
	}
	if whole > 0 {
		l.each(string(l.begun[:whole]))
		l.begun = append(l.begun[:0], l.begun[whole:]...)
	}
	return len(text), nil
}
