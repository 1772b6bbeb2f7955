// SPDX-License-Identifier: Apache-2.0

// Package engine makes connections from programs that run a command on one node: srun, mpirun and
// kubectl exec. A carrier describes its program with an [Engine]. The command reads the program's
// standard input and writes to its standard output. If no command runs, the program's standard
// error says why.
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
	// grace is how long a program may take to end. Its pipes may then take as long to close.
	grace = time.Second
	// maxAsked is a limit above the number of lines that any program needs to report why it will
	// not start the command.
	maxAsked = 1000
)

// Engine describes a program that reaches nodes.
type Engine struct {
	Name string
	// Program returns the command that runs argv, a script for /bin/sh, on a node.
	Program func(node string, argv []string) *exec.Cmd
	// Typed means that a command is sent to the node's shell on standard input, because the program
	// has no room for the command in its arguments.
	Typed bool
	// Sheds lists variables that the script unsets first. The program sets these variables to
	// describe itself and preflight's job, which must not look like the launch's job.
	Sheds []string
	// Explain returns why the program has come no further than came. said holds the messages of the
	// program and of a command that had begun. Explain returns nil if the messages give no reason.
	Explain func(said string, came State) *remote.Error
	// Hangs means that the program may keep running forever after it has reported its failure.
	Hangs bool
	// Silent is the likely reason if the program never starts the command and prints nothing. It is
	// "" if no reason is likely.
	Silent string

	running sync.WaitGroup
}

// longestNaming is how long to wait for a name server. It can be short because the program does not
// need the address.
const longestNaming = time.Second

// Address returns the address to which a node's name resolves on the launching machine, "" if it
// does not resolve. The address is for the report.
func Address(ctx context.Context, names *hostsys.Names, node string) string {
	ctx, cancel := context.WithTimeout(ctx, longestNaming)
	defer cancel()
	found, err := names.LookupNetIP(ctx, "ip", node)
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0].Unmap().String()
}

// State says how far a program has come.
type State int

const (
	Going  State = iota // the program runs, and the command has not begun
	Failed              // the program ended before the command began
	Broke               // the program ended before the command did
)

// connection is a run of a program for one node. It starts one command.
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
	status   string      // exit status of the command, "" before the command ends
	asked    int         // number of read lines of the command that may give a reason
	why      *remote.Error
	cut      bool   // preflight ended the program
	before   string // the program's messages before preflight ended it
}

// Connect returns the connection to a node. The program starts together with the command.
func (e *Engine) Connect(node string) remote.Connection {
	return &connection{engine: e, node: node, closed: make(chan struct{})}
}

// Close waits until all programs whose connections were closed have ended.
func (e *Engine) Close() { e.running.Wait() }

// The marks that the script prints on standard error before and after the command.
const (
	begins = "@@preflight-task "
	ends   = "@@preflight-ended "
)

// script runs a command. It prints a mark on standard error when the command begins and another
// when it ends. The text before and after the marks is the program's own output. The script itself
// always succeeds, because many programs print a banner if a command fails.
const script = `echo "` + begins + `begins here" >&2; /bin/sh -c "$1"; echo "` + ends + `$? and nothing more comes" >&2`

// typed is put before a script so that the script reads its command from standard input.
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
	// These pipes are not exec.Cmd's, because exec.Cmd closes its pipes when the program has ended,
	// even if their content was not read.
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
		_, err = io.WriteString(stdin, input) // input is shorter than what a pipe holds
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

// readStderr handles lines of standard error. They are the program's, and between our two marks the
// command's.
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

// exit returns how the command ended. If the program ended first and seemed to succeed, exit
// returns how the program ended. If preflight ends the program, exit does not wait for that end.
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

// exitOf returns the end of a command, given the status that the command's shell printed.
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

// Alive returns false, because no program gives a sign of life of a silent node.
func (c *connection) Alive() bool { return false }

// Wait returns when the program has ended.
func (c *connection) Wait() error {
	select {
	case <-c.ended:
	case <-c.closed:
	}
	return io.EOF
}

// Broken returns why the program did not start the command, or why it ended the command.
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

// LookOut watches a program that keeps waiting, because its messages so far may say why.
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

// Close ends the program in three steps. First it closes the standard input, after which our
// command ends by itself and cleans up. Then it sends the signal that makes the program end its
// command. Finally it kills the program.
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

// lines passes on whole lines. It splits very long lines.
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
