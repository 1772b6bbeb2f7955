package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"preflight/hostsys"
	"preflight/lazyregexp"
	"preflight/remote"
)

// execution is one kubectl exec. It is a connection from which one command is started.
type execution struct {
	program string
	words   []string
	detail  map[string]string // what failures tell of the pod

	once   sync.Once
	closed chan struct{}
	spoke  atomic.Bool // something came from the pod

	mu      sync.Mutex
	command *exec.Cmd // nil before the command
	ended   <-chan struct{}
	pipes   []io.Closer
	said    remote.Tail
	cut     bool   // it was we who ended it
	before  string // what kubectl had said by then
}

// shell takes its command from what it is sent. kubectl puts a command into the address that
// it asks the API server for, where proxies on the way allow for a few kilobytes in all.
// It never ends with 0: so does kubectl where its connection was cut, by some releases (1.20)
// without a word.
const shell = `IFS= read -r command && (eval "$command"); s=$?; [ $s != 0 ] || s=` + endedWell + `; exit $s`

// endedWell is the status of a command that ended with 0.
const endedWell = "99"

// Start runs the command, which is one line for a shell.
func (e *execution) Start(command string, stderr io.Writer) (*remote.Process, *remote.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	failed := func(err error) (*remote.Process, *remote.Error) {
		if short := remote.Short(remote.StageSession, err); short != nil {
			return nil, short
		}
		return nil, &remote.Error{Stage: remote.StageSession, Cause: remote.SessionRefused, Err: err}
	}
	select {
	case <-e.closed:
		return failed(os.ErrClosed)
	default:
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
	e.pipes = []io.Closer{stdin, stdout}
	e.said.Full = func() {} // the caller's has a limit
	cmd := exec.Command(e.program, append(e.words[:len(e.words):len(e.words)], "--", "/bin/sh", "-c", shell)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, io.MultiWriter(stderr, &e.said)
	cmd.WaitDelay = closeGrace
	ended, err := hostsys.Start(cmd)
	if err == nil {
		_, err = io.WriteString(stdin, command+"\n") // less than a pipe holds
	}
	if err != nil {
		stdin.Close()
		stdout.Close()
		return failed(err)
	}
	e.command, e.ended = cmd, ended
	return &remote.Process{Stdin: stdin, Stdout: heard{stdout, &e.spoke}, Wait: e.exit}, nil
}

// heard notes that something was read.
type heard struct {
	io.Reader
	spoke *atomic.Bool
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.spoke.Store(true)
	}
	return n, err
}

// exit is how the command ended: kubectl's status is that of the shell.
func (e *execution) exit() remote.Exit {
	<-e.ended
	status, isUnix := e.command.ProcessState.Sys().(syscall.WaitStatus)
	code := e.command.ProcessState.ExitCode()
	switch {
	case isUnix && status.Signaled():
		return remote.Exit{Status: -1}
	case code == 0 && e.spoke.Load():
		return remote.Exit{Status: -1, Missing: true}
	case strconv.Itoa(code) == endedWell:
		return remote.Exit{}
	case code > 128:
		return remote.Exit{Status: -1, Signal: strings.TrimPrefix(cmp.Or(unix.SignalName(syscall.Signal(code-128)), fmt.Sprint(code-128)), "SIG")}
	}
	return remote.Exit{Status: code}
}

// Alive is false: kubectl says nothing of a pod that is silent.
func (e *execution) Alive() bool { return false }

// Wait returns when kubectl has ended.
func (e *execution) Wait() error {
	select {
	case <-e.ended:
	case <-e.closed:
	}
	return io.EOF
}

// commandEnded is how kubectl tells the end of a command that had been started.
//
// Source: kubernetes/kubectl, pkg/cmd/util/helpers.go over client-go's util/exec.CodeExitError.
var commandEnded = lazyregexp.New(`command terminated with exit code \d+`)

// Broken is what kubectl says of a command that it could not start, or has lost.
func (e *execution) Broken() *remote.Error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.command == nil || e.cut {
		return nil
	}
	select {
	case <-e.ended:
	default:
		return nil
	}
	said := e.said.Text()
	failure := explain(said)
	switch started := e.spoke.Load(); {
	case e.command.ProcessState.Success() && !started && failure == nil:
		return nil
	case e.command.ProcessState.Success():
		failure = &remote.Error{Cause: remote.ConnectionLost, Err: errors.New(cmp.Or(complaint(said), "kubectl ended as if all were well, before the command had"))}
	case started && commandEnded.MatchString(said):
		return nil
	case started && (failure == nil || failure.Cause != remote.KubeletDown):
		failure = &remote.Error{Cause: remote.ConnectionLost, Err: errors.New(cmp.Or(complaint(said), "kubectl ended without a word"))}
	case failure == nil && commandEnded.MatchString(said):
		return nil
	case failure == nil:
		failure = &remote.Error{Cause: remote.SessionRefused, Err: errors.New(cmp.Or(complaint(said), "kubectl ended without a word"))}
	}
	return e.detailed(failure)
}

// detailed is a failure that says of which pod it is.
func (e *execution) detailed(failure *remote.Error) *remote.Error {
	if failure.Detail == nil {
		failure.Detail = map[string]string{}
	}
	maps.Copy(failure.Detail, e.detail)
	return failure
}

// LookOut watches a kubectl that keeps waiting: what it has said so far may be why.
func (e *execution) LookOut(context.Context) remote.Lookout { return lookout{e} }

type lookout struct{ execution *execution }

func (l lookout) Tell(failure *remote.Error) {
	if failure == nil {
		return
	}
	e := l.execution
	e.mu.Lock()
	defer e.mu.Unlock()
	e.detailed(failure)
	after := failure.Detail["after"]
	if known := explain(e.before); known != nil {
		failure.Cause, failure.Err = known.Cause, fmt.Errorf("still waiting after %s: %w", after, known.Err)
		return
	}
	failure.Err = fmt.Errorf("nothing came through kubectl within %s, and it says nothing either", after)
}

func (lookout) Dismiss() {}

// closeGrace is how long kubectl may take to end when it is told to.
const closeGrace = time.Second

// Close ends kubectl: with its standard input, by a signal, and at last by force. In the pod
// the agent's own standard input ends with it.
func (e *execution) Close() error {
	e.once.Do(func() {
		close(e.closed)
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, pipe := range e.pipes {
			pipe.Close()
		}
		if e.command == nil {
			return
		}
		select {
		case <-e.ended:
			return
		default:
		}
		e.cut, e.before = true, e.said.Text()
		e.command.Process.Signal(unix.SIGTERM)
		killing := time.AfterFunc(closeGrace, func() {
			select {
			case <-e.ended:
			default:
				hostsys.KillGroup(e.command)
			}
		})
		go func() {
			<-e.ended
			killing.Stop()
		}()
	})
	return nil
}
