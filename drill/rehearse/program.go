// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"preflight/facts"
	"preflight/internal/hostsys"
)

// Variable is the environment variable whose value is the ID of a rehearsal, in every process of
// it. DeepSpeed passes on variables whose names begin with PYTHON (deepspeed/launcher/runner.py,
// EXPORT_ENVS, 0.19.8).
const Variable = "PYTHON_PREFLIGHT"

// Program is a launcher that runs in a rehearsal on this machine.
type Program struct {
	cmd   *exec.Cmd
	began time.Time
	ended <-chan struct{}
	out   ends
	err   error // why the program could not be started
	took  time.Duration
}

// Start starts a launcher with variables in addition to this process's own. The launcher gets a
// session of its own, so that Ctrl-C does not reach it: DeepSpeed would answer SIGINT by ending all
// DeepSpeed jobs of the user. It dies with this process.
func Start(id string, words []string, dir string, env []facts.Setting) *Program {
	p := &Program{cmd: exec.Command(words[0], words[1:]...), began: time.Now()}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), Variable+"="+id)
	for _, setting := range env {
		if setting.Value != "…" { // "…" stands for a value that was not collected
			p.cmd.Env = append(p.cmd.Env, setting.Name+"="+setting.Value)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = time.Second // after the launcher itself has ended, its children may still hold its output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ended, err := hostsys.Start(p.cmd)
	p.ended, p.err = ended, err
	return p
}

// HasEnded reports whether the launcher itself has ended.
func (p *Program) HasEnded() bool {
	select {
	case <-p.ended:
		if p.took == 0 {
			p.took = time.Since(p.began)
		}
		return true
	default:
		return false
	}
}

// stillRunning is the Problem of a launcher that had not ended when preflight looked or ended it.
const stillRunning = "still running"

// Facts returns what is known about the launcher so far.
func (p *Program) Facts() *facts.RehearsedProgram {
	seen := &facts.RehearsedProgram{Command: p.cmd.Args, ExitCode: -1, Output: p.out.String()}
	switch state := p.cmd.ProcessState; {
	case p.err != nil:
		seen.Problem = p.err.Error()
	case !p.HasEnded():
		seen.Problem = stillRunning
	case state.Exited():
		seen.ExitCode = state.ExitCode()
	default:
		seen.Problem = fmt.Sprintf("ended by %s", state)
	}
	seen.Seconds = p.took.Seconds()
	return seen
}

// await waits until the launcher has ended, for no longer than limit.
func (p *Program) await(limit time.Duration) {
	select {
	case <-p.ended:
	case <-time.After(limit):
	}
}

// ends is a writer that keeps the first and the last bytes that are written to it.
type ends struct {
	mu          sync.Mutex
	first, last []byte
	dropped     int
}

// kept is how many bytes are kept of the beginning, and of the end.
const kept = 24 << 10

var _ io.Writer = (*ends)(nil)

func (e *ends) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(kept-len(e.first), len(p))
	e.first = append(e.first, p[:n]...)
	e.last = append(e.last, p[n:]...)
	if more := len(e.last) - kept; more > 0 {
		e.last = append([]byte{}, e.last[more:]...)
		e.dropped += more
	}
	return len(p), nil
}

// String returns the kept text.
func (e *ends) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := string(e.first)
	if e.dropped > 0 {
		text += fmt.Sprintf("\n… %d bytes left out …\n", e.dropped)
	}
	return strings.ToValidUTF8(text+string(e.last), "?")
}
