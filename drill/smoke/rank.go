// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
	"preflight/internal/text"
)

// endTime is how long a killed process may take to end. A process that still exists after that is
// in a system call that no signal interrupts.
const endTime = time.Second

// rank is a process that carries out one order after another.
type rank struct {
	cmd        *exec.Cmd
	output     *transcript
	pipes      [3]*os.File     // this process's ends of the rank's standard input, output and error
	ended      <-chan struct{} // closed when the process has ended
	outputRead chan struct{}   // closed when everything that the process printed has been read
	stuck      bool            // the process was killed, and still exists after endTime
}

const stdin, stdout, stderr = 0, 1, 2

// start starts a program as a rank. The rank's first answer says that it has loaded.
func start(cmd *exec.Cmd) (_ *rank, loaded <-chan Word, err error) {
	r := &rank{cmd: cmd, output: &transcript{}, outputRead: make(chan struct{})}
	var theirs [3]*os.File
	defer func() {
		for _, file := range theirs {
			file.Close()
		}
		if err != nil {
			r.close()
		}
	}()
	for fd := range theirs {
		from, into, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		if fd == stdin {
			from, into = into, from
		}
		r.pipes[fd], theirs[fd] = from, into
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[stdin], theirs[stdout], theirs[stderr]
	if r.ended, err = hostsys.Start(cmd); err != nil {
		return nil, nil, err
	}
	leaveNoCore(cmd.Process.Pid)
	loaded = r.output.expect("exec " + cmd.Path)
	var reading sync.WaitGroup
	reading.Go(func() { eachLine(r.pipes[stdout], r.output.word) })
	reading.Go(func() { eachLine(r.pipes[stderr], r.output.complaint) })
	go func() {
		reading.Wait()
		close(r.outputRead)
	}()
	return r, loaded, nil
}

func (r *rank) close() {
	for _, file := range r.pipes {
		file.Close()
	}
}

// do gives the rank an order and waits for the result. If ctx ends first, the error is ctx's error.
func (r *rank) do(ctx context.Context, order Order, limit time.Duration) (Done, *facts.SmokeFailure, error) {
	line, err := json.Marshal(order)
	if err != nil {
		return Done{}, nil, err
	}
	answer := r.output.expect(order.Do)
	return r.await(ctx, answer, limit, func() { _, _ = r.pipes[stdin].Write(append(line, '\n')) }) // a write error needs no report: if the process has ended, await notices that
}

// await calls begin and waits for the answer. If the rank fails in any way, await ends it.
func (r *rank) await(ctx context.Context, answer <-chan Word, limit time.Duration, begin func()) (Done, *facts.SmokeFailure, error) {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// This also ends a rank that reads no orders.
	defer context.AfterFunc(waiting, func() { _ = hostsys.KillGroup(r.cmd) })()
	begin()
	var word Word
	select {
	case word = <-answer:
	case <-waiting.Done():
	case <-r.ended:
	}
	late := waiting.Err() != nil
	if word.Done != nil {
		return *word.Done, nil, nil
	}
	gone := r.end()
	select { // reads what the process printed before it ended
	case word = <-answer:
	default:
	}
	failure := &facts.SmokeFailure{}
	failure.Call, failure.Log = r.output.last()
	switch {
	case ctx.Err() != nil:
		return Done{}, nil, ctx.Err()
	case word.Failed != nil:
		failure.Kind = cmp.Or(word.Failed.Kind, facts.SmokeError)
		failure.Call = clip(cmp.Or(word.Failed.Call, failure.Call))
		failure.Message = clip(word.Failed.Message)
		failure.Element, failure.Got, failure.Want = word.Failed.Element, word.Failed.Got, word.Failed.Want
	case !gone:
		failure.Kind, failure.Message = facts.SmokeStuck, fmt.Sprintf("no answer within %s, and SIGKILL did not end it%s", text.Duration(limit.Seconds()), waitsIn(r.cmd.Process.Pid))
	case late:
		failure.Kind, failure.Message = facts.SmokeHang, fmt.Sprintf("no answer within %s", text.Duration(limit.Seconds()))
	default:
		failure.Kind, failure.Message = facts.SmokeCrash, "the process ended: "+r.cmd.ProcessState.String()
	}
	return Done{}, failure, nil
}

// end ends the process and everything that it has started. It reports whether they are gone.
func (r *rank) end() (gone bool) {
	if r.stuck {
		return r.hasEnded()
	}
	_ = hostsys.KillGroup(r.cmd)
	select {
	case <-r.ended:
		// Processes that the rank has started may outlive it. Their group keeps its number as long
		// as it has members.
		_ = hostsys.KillGroup(r.cmd)
	case <-time.After(endTime):
		r.stuck = true
	}
	select {
	case <-r.outputRead:
	case <-time.After(hostsys.Grace): // another process still holds the rank's pipes
	}
	r.close()
	return !r.stuck
}

func (r *rank) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}
