// SPDX-License-Identifier: Apache-2.0

package srun

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"preflight/internal/hostsys"
	"preflight/remote"
	"preflight/remote/engine"
)

const (
	// quiet is how long no further node may have asked for a file before the waiting nodes get it.
	quiet = time.Second
	// sbcastTime is the time limit for starting the step and for the transfer together.
	sbcastTime = 10 * time.Second
	// tidying is the time limit for the nodes to remove the rest of the file.
	tidying = 4 * time.Second
)

// sbcast copies the agent to nodes that lack it. All nodes that ask for one file get it in one run
// of Slurm's sbcast, in which nodes pass the file's blocks on to each other. sbcast finds nodes
// through a step, so those nodes get one more step. That step lasts as long as the carrier, and
// then removes what is left of the file.
//
// Source: SchedMD/slurm 22.05, src/sbcast/opts.c, and src/slurmd/slurmd/req.c,
// _file_bcast_register_file: the job's owner opens the file, with O_EXCL and mode 0700.
type sbcast struct {
	program string // sbcast's path, "" if sbcast is not used
	job     string
	engine  *engine.Engine
	nodes   int // number of nodes in the launch

	ctx     context.Context // ends when the carrier is closed
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	batches map[string]*batch // waiting batches, by path
	steps   []holding
}

// batch holds the nodes that wait for one file.
type batch struct {
	path    string
	content []byte
	nodes   []string
	timer   *time.Timer
	done    chan struct{}
	arrived bool // the file arrived; set before done is closed
}

// holding is a step through which a file is sent.
type holding struct {
	connection remote.Connection
	process    *remote.Process
}

// newSbcast returns an sbcast. It sends nothing if the program is missing, or if steps run in a
// container, whose files are not the node's.
func newSbcast(by *engine.Engine, nodes int, o Options) *sbcast {
	s := &sbcast{job: o.Job.ID, engine: by, nodes: nodes, batches: map[string]*batch{}}
	if program, err := exec.LookPath("sbcast"); err == nil && len(o.Container) == 0 {
		s.program = program
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// bring waits until the file has arrived on the node, and reports whether it has arrived.
func (s *sbcast) bring(ctx context.Context, node, path string, content []byte) bool {
	if s.program == "" {
		return false
	}
	s.mu.Lock()
	b := s.batches[path]
	if b == nil {
		b = &batch{path: path, content: content, done: make(chan struct{})}
		b.timer = time.AfterFunc(quiet, func() { s.send(b) })
		s.batches[path] = b
	}
	b.nodes = append(b.nodes, node)
	b.timer.Reset(quiet)
	if len(b.nodes) == s.nodes {
		b.timer.Reset(0)
	}
	s.mu.Unlock()
	select {
	case <-b.done:
		return b.arrived
	case <-ctx.Done():
		return false
	}
}

// send sends the file to a waiting batch. A step is not worthwhile for a batch of one node, which
// gets the file in the usual way.
func (s *sbcast) send(b *batch) {
	s.mu.Lock()
	waits := s.batches[b.path] == b && s.ctx.Err() == nil
	if waits {
		delete(s.batches, b.path)
		s.running.Add(1)
		defer s.running.Done()
	}
	s.mu.Unlock()
	if waits {
		b.arrived = len(b.nodes) > 1 && s.run(b)
		close(b.done)
	}
}

// holds is the command of the step. It prints the step's number. srun sends its input to all of the
// step's tasks.
const holds = `IFS= read -r path && echo "` + holdsMark + `$SLURM_STEP_ID" && read -r end; rm -f "$path"`

const holdsMark = "@@preflight-step "

func (s *sbcast) run(b *batch) bool {
	ctx, cancel := context.WithTimeout(s.ctx, sbcastTime)
	defer cancel()
	file, err := os.CreateTemp("", "preflight-")
	if err != nil {
		return false
	}
	defer os.Remove(file.Name())
	_, err = file.Write(b.content)
	if shut := file.Close(); err != nil || shut != nil {
		return false
	}
	step := s.hold(ctx, b)
	if step == "" {
		return false
	}
	theirs := func(variable string) bool { return strings.HasPrefix(variable, "SBCAST_") }
	_, _, err = hostsys.Child{
		Path: s.program, Args: []string{"--jobid=" + s.job + "." + step, "--size=8m", file.Name(), b.path},
		Env: append(slices.DeleteFunc(os.Environ(), theirs), "SBCAST_SEND_LIBS=no"),
	}.Run(ctx)
	return err == nil
}

// hold starts a step on the nodes of a batch. It returns the step's number when the step runs on
// all of them, otherwise "".
func (s *sbcast) hold(ctx context.Context, b *batch) (step string) {
	connection := s.engine.Connect(strings.Join(b.nodes, ","))
	process, failure := connection.Start(holds, io.Discard)
	if failure != nil {
		return ""
	}
	defer context.AfterFunc(ctx, func() { connection.Close() })()
	_, _ = io.WriteString(process.Stdin, b.path+"\n") // a failure shows up in the output
	lines := bufio.NewScanner(process.Stdout)
	for hold := 0; hold < len(b.nodes); {
		if !lines.Scan() {
			connection.Close()
			return ""
		}
		if _, number, ok := strings.Cut(lines.Text(), holdsMark); ok {
			hold, step = hold+1, number
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, holding{connection, process})
	return step
}

// close ends transfers in progress, and then the steps.
func (s *sbcast) close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.running.Wait()
	for _, step := range s.steps {
		step.process.Stdin.Close()
	}
	for _, step := range s.steps {
		late := time.AfterFunc(tidying, func() { step.connection.Close() })
		step.process.Wait()
		late.Stop()
		step.connection.Close()
	}
}
