// SPDX-License-Identifier: Apache-2.0

package broadcast

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

// own is a program for one node. It is a connection from which one command is started.
type own struct {
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

// Alone is the connection to a node by a program for it alone.
func Alone(engine *Engine, node string) remote.Connection { return newOwn(engine, node) }

func newOwn(engine *Engine, node string) *own {
	return &own{engine: engine, node: node, closed: make(chan struct{})}
}

// ownScript runs a command and says on its standard error when it begins and how it ends: what
// comes before and behind is the program's own. No program is told of a command that fails,
// for many end with a banner then.
const ownScript = `echo "` + begins + `begins here" >&2; /bin/sh -c "$1"; echo "` + ends + `$? and nothing more comes" >&2`

// typed has a script for a command read that.
const typed = `IFS= read -r command && set -- "$command" || exit; `

// Start runs the command, which is for a shell, on the node.
func (o *own) Start(command string, stderr io.Writer) (*remote.Process, *remote.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	failed := func(err error) (*remote.Process, *remote.Error) {
		if short := remote.Short(remote.StageSession, err); short != nil {
			return nil, short
		}
		return nil, &remote.Error{Stage: remote.StageSession, Cause: remote.Unexpected, Err: err}
	}
	if o.isClosed() {
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
	o.pipes, o.stderr = []io.Closer{stdin, stdout}, stderr
	o.said.Full = func() {} // the caller's has a limit
	argv, input := []string{"/bin/sh", "-c", o.engine.shed() + ownScript, "preflight", command}, ""
	if o.engine.Typed {
		argv, input = []string{"/bin/sh", "-c", o.engine.shed() + typed + ownScript}, command+"\n"
	}
	cmd := o.engine.Program([]string{o.node}, argv)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = theirIn, theirOut, &lines{each: o.hear}, grace
	ended, err := hostsys.Start(cmd)
	if err == nil {
		_, err = io.WriteString(stdin, input) // less than a pipe holds
	}
	if err != nil {
		stdin.Close()
		stdout.Close()
		return failed(err)
	}
	o.cmd, o.ended = cmd, ended
	return &remote.Process{Stdin: stdin, Stdout: stdout, Wait: o.exit}, nil
}

// hear takes lines of standard error: the program's, and the command's between our two.
func (o *own) hear(said string) {
	// Whoever takes them may close us for there being too much.
	_, _ = io.WriteString(o.stderr, o.heard(said))
}

// heard returns the lines without ours.
func (o *own) heard(said string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, rest, found := strings.Cut(said, begins+"begins here\n"); found && !o.begun {
		o.begun = true
		said = before + rest
	}
	if before, rest, found := strings.Cut(said, ends); found && o.begun && o.status == "" {
		o.status, rest, _ = strings.Cut(rest, "\n")
		said = before + rest
	}
	_, _ = io.WriteString(&o.said, said) // never fails
	if o.asked++; o.engine.Hangs && o.asked < maxAsked && !o.begun && o.why == nil && !o.cut {
		if o.why = o.engine.Explain(o.said.Text(), Going); o.why != nil {
			go o.Close()
		}
	}
	return said
}

// exit is how the command ended, or the program where that ended before it as if all were well.
func (o *own) exit() remote.Exit {
	<-o.ended
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.status == "" && !o.cut && o.cmd.ProcessState.ExitCode() >= 0 {
		return remote.Exit{Status: o.cmd.ProcessState.ExitCode()}
	}
	return exitOf(o.status)
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
func (o *own) Alive() bool { return false }

// Wait returns when the program has ended.
func (o *own) Wait() error {
	select {
	case <-o.ended:
	case <-o.closed:
	}
	return io.EOF
}

// Broken is what the program says of a command that was not to be had, or was taken away.
func (o *own) Broken() *remote.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why != nil {
		why := *o.why
		return &why
	}
	if o.cmd == nil || o.cut || o.status != "" {
		return nil
	}
	select {
	case <-o.ended:
	default:
		return nil
	}
	if o.begun {
		return o.engine.Explain(o.said.Text(), Broke)
	}
	return o.engine.Explain(o.said.Text(), Failed)
}

// LookOut watches a program that keeps waiting: what it has said so far may be why.
func (o *own) LookOut(context.Context) remote.Lookout { return ownLookout{o} }

type ownLookout struct{ own *own }

func (l ownLookout) Tell(failure *remote.Error) {
	o := l.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if failure == nil || o.cmd == nil {
		return
	}
	name := o.engine.Name
	why := o.engine.Explain(o.before, Going)
	switch {
	case o.begun:
		failure.Err = fmt.Errorf("our command has begun there, and nothing more came through %s within %s", name, failure.Detail["after"])
	case why != nil:
		failure.Cause, failure.Err = why.Cause, fmt.Errorf("still waiting after %s: %w", failure.Detail["after"], why.Err)
	default:
		text := fmt.Sprintf("nothing came through %s within %s, and it says nothing either", name, failure.Detail["after"])
		switch {
		case o.before != "":
			text = fmt.Sprintf("nothing came through %s within %s, which says: %s", name, failure.Detail["after"], o.before)
		case o.engine.Silent != "":
			text += ": " + o.engine.Silent
		}
		failure.Err = errors.New(text)
	}
}

func (ownLookout) Dismiss() {}

func (o *own) isClosed() bool {
	select {
	case <-o.closed:
		return true
	default:
		return false
	}
}

// Close ends the program: with its standard input, by the signal at which it ends its tasks,
// and at last without it.
func (o *own) Close() error {
	o.once.Do(func() {
		close(o.closed)
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, pipe := range o.pipes {
			pipe.Close()
		}
		if o.cmd == nil {
			return
		}
		select {
		case <-o.ended:
			return
		default:
		}
		o.cut, o.before = true, o.said.Text()
		_ = o.cmd.Process.Signal(unix.SIGTERM)
		killing := time.AfterFunc(grace, func() {
			select {
			case <-o.ended:
			default:
				_ = hostsys.KillGroup(o.cmd)
			}
		})
		go func() {
			<-o.ended
			killing.Stop()
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
