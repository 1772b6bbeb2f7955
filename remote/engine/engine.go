// SPDX-License-Identifier: Apache-2.0

// Package engine makes connections from programs that run a command on one node: srun, mpirun and
// kubectl exec. A carrier describes its program with an [Engine]. The command reads and writes the
// program's standard input and output. If no command runs, the program's standard error says why.
//
// The package has no knowledge of any single program.
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
	// grace is how long a program may take to end, and its pipes to close after that.
	grace = time.Second
	// maxAsked is more lines than any program needs to report why it will not start the command.
	maxAsked = 1000
)

// Engine is a program that reaches nodes.
type Engine struct {
	Name string
	// Program runs argv, a script for /bin/sh, on a node.
	Program func(node string, argv []string) *exec.Cmd
	// Typed is set if a command is sent to the node's shell on standard input, because the program
	// has no room for it in its arguments.
	Typed bool
	// Sheds are variables that the script unsets first. The program sets them to describe itself
	// and preflight's job, which must not look like the launch's.
	Sheds []string
	// Explain returns why the program has come no further, from its own messages and those of a
	// command that had begun; nil if they do not say.
	Explain func(said string, came State) *remote.Error
	// Hangs is set if the program may run forever after it has reported its failure.
	Hangs bool
	// Silent is the likely reason if the program never starts the command and prints nothing, ""
	// for none in particular.
	Silent string

	running sync.WaitGroup
}

// longestNaming is how long to wait for a name server. It can be short because the program does not
// need the address.
const longestNaming = time.Second

// Address returns the address to which a node's name resolves on this machine, for the report; ""
// if it does not.
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
	Going  State = iota // it runs, and the command has not begun
	Failed              // it ended before the command began
	Broke               // it ended before the command did
)

// connection is a program for one node. It starts one command.
type connection struct {
	engine *Engine
	node   string

	once   sync.Once
	closed chan struct{}

	mu       sync.Mutex
	cmd      *exec.Cmd // nil before Start
	ended    <-chan struct{}
	pipes    []io.Closer
	stderr   io.Writer   // the command's standard error
	messages remote.Tail // the program's own messages
	begun    bool        // the command has begun
	status   string      // of the command, "" before it ends
	asked    int         // lines of the command that may say why
	why      *remote.Error
	cut      bool   // we ended it
	before   string // the program's messages until then
}

// Connect returns the connection to a node. The program starts together with the command.
func (e *Engine) Connect(node string) remote.Connection {
	return &connection{engine: e, node: node, closed: make(chan struct{})}
}

// Close waits until all programs have ended whose connections were closed.
func (e *Engine) Close() { e.running.Wait() }

// The script prints these on standard error before and after the command.
const (
	begins = "@@preflight-task "
	ends   = "@@preflight-ended "
)

// script runs a command and prints on standard error when it begins and how it ends. What comes
// before and after is the program's own output. The script itself always succeeds, because many
// programs print a banner if a command fails.
const script = `echo "` + begins + `begins here" >&2; /bin/sh -c "$1"; echo "` + ends + `$? and nothing more comes" >&2`

// typed makes a script for a command read that command from standard input.
const typed = `IFS= read -r command && set -- "$command" || exit; `

// Start runs a shell command on the node.
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
	// These pipes are our own because exec.Cmd closes its pipes when the program has ended, even if
	// they were not read.
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
	c.messages.Full = func() {} // the caller's stderr has a limit
	first := ""
	if len(c.engine.Sheds) > 0 {
		first = "unset " + strings.Join(c.engine.Sheds, " ") + "; "
	}
	argv, input := []string{"/bin/sh", "-c", first + script, "preflight", command}, ""
	if c.engine.Typed {
		argv, input = []string{"/bin/sh", "-c", first + typed + script}, command+"\n"
	}
	cmd := c.engine.Program(c.node, argv)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = theirIn, theirOut, &lines{each: c.readStderr}, grace
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

// readStderr reads lines of standard error: the program's, and between our two marks the command's.
func (c *connection) readStderr(output string) {
	// The reader may close the connection if there is too much.
	_, _ = io.WriteString(c.stderr, c.withoutMarks(output))
}

// withoutMarks returns the lines without our marks.
func (c *connection) withoutMarks(output string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, rest, found := strings.Cut(output, begins+"begins here\n"); found && !c.begun {
		c.begun = true
		output = before + rest
	}
	if before, rest, found := strings.Cut(output, ends); found && c.begun && c.status == "" {
		c.status, rest, _ = strings.Cut(rest, "\n")
		output = before + rest
	}
	_, _ = io.WriteString(&c.messages, output) // never fails
	if c.asked++; c.engine.Hangs && c.asked < maxAsked && !c.begun && c.why == nil && !c.cut {
		if c.why = c.engine.Explain(c.messages.Text(), Going); c.why != nil {
			go c.Close()
		}
	}
	return output
}

// exit returns how the command ended, or the program's end if that came first and looked like
// success. If we end the program, it does not wait for that.
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

// exitOf returns the end of a command from the status that its shell printed.
func exitOf(output string) remote.Exit {
	word, _, _ := strings.Cut(output, " ")
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

// Alive returns false: no program gives a sign of life of a silent node.
func (c *connection) Alive() bool { return false }

// Wait returns when the program has ended.
func (c *connection) Wait() error {
	select {
	case <-c.ended:
	case <-c.closed:
	}
	return io.EOF
}

// Broken returns why the program did not start the command, or ended it.
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
		return c.engine.Explain(c.messages.Text(), Broke)
	}
	return c.engine.Explain(c.messages.Text(), Failed)
}

// LookOut watches a program that keeps waiting. Its messages so far may say why.
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

// Close ends the program in three steps. It closes the standard input, after which our command ends
// by itself and cleans up. Then it sends the signal after which the program ends its command. At
// last it kills the program.
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
		c.cut, c.before = true, c.messages.Text()
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

// lines passes on whole lines, or parts of very long ones.
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
