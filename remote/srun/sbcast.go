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
	// quiet is for how long no further node may ask for a file before those that have asked get it.
	quiet = time.Second
	// sbcastTime is how long the file may take, and the step that it is brought by.
	sbcastTime = 10 * time.Second
	// tidying is how long the nodes may take to remove what is left of the file.
	tidying = 4 * time.Second
)

// sbcast brings our binary to nodes that lack it, to all that ask for one file by one run of Slurm's
// sbcast, whose blocks each node hands on to others. sbcast knows nodes by a step of theirs, so those
// nodes get one more step. It lasts as long as the carrier, and then removes what is left of the file.
//
// Source: SchedMD/slurm 22.05, src/sbcast/opts.c, and src/slurmd/slurmd/req.c,
// _file_bcast_register_file: the job's owner opens the file, with O_EXCL and mode 0700.
type sbcast struct {
	program string // "" brings nothing
	job     string
	engine  *engine.Engine
	nodes   int // of the launch

	ctx     context.Context // ends with the carrier
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	batches map[string]*batch // that wait, by path
	steps   []holding
}

// batch is the nodes that wait for a file.
type batch struct {
	path    string
	content []byte
	nodes   []string
	timer   *time.Timer
	done    chan struct{}
	came    bool // set before done is closed
}

// holding is a step that a file is brought by.
type holding struct {
	connection remote.Connection
	process    *remote.Process
}

// newSbcast brings nothing where there is no sbcast, and where steps run in a container, whose files are others than
// the node's.
func newSbcast(by *engine.Engine, nodes int, o Options) *sbcast {
	s := &sbcast{job: o.Job.ID, engine: by, nodes: nodes, batches: map[string]*batch{}}
	if program, err := exec.LookPath("sbcast"); err == nil && len(o.Container) == 0 {
		s.program = program
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// bring waits until the file has come to the node, and reports whether it has.
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
		return b.came
	case <-ctx.Done():
		return false
	}
}

// send brings the file to a batch that waits, unless it is one node's: to one node it is sent as to any.
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
		b.came = len(b.nodes) > 1 && s.run(b)
		close(b.done)
	}
}

// holds is the command of the step, which tells the step's number. What it reads goes to all of its tasks.
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

// hold starts a step on the nodes of a batch, and returns its number when it runs on all of them, or "".
func (s *sbcast) hold(ctx context.Context, b *batch) (step string) {
	connection := s.engine.Connect(strings.Join(b.nodes, ","))
	process, failure := connection.Start(holds, io.Discard)
	if failure != nil {
		return ""
	}
	defer context.AfterFunc(ctx, func() { connection.Close() })()
	_, _ = io.WriteString(process.Stdin, b.path+"\n") // that it was not read shows in what comes
	lines := bufio.NewScanner(process.Stdout)
	for hold := 0; hold < len(b.nodes); {
		if !lines.Scan() {
			connection.Close()
			return ""
		}
		if _, number, is := strings.Cut(lines.Text(), holdsMark); is {
			hold, step = hold+1, number
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, holding{connection, process})
	return step
}

// close ends what is being brought, and then the steps.
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
