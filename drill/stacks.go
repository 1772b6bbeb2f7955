// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"preflight/facts"
	"preflight/internal/hostsys"
)

const (
	// stackTime is py-spy's time limit for one process. py-spy needs a second, and uses the symbols
	// of the process's Python.
	stackTime = 5 * time.Second
	// stackGap is the time between the two dumps of a process.
	stackGap = time.Second
	// stacksAtOnce is small so that py-spy does not slow down a node that trains.
	stacksAtOnce = 2
	// mostStackLines is the maximum number of lines of a stack. Any waiting rank has fewer.
	mostStackLines = 60
)

// Stacks lists the processes whose Python stacks to read.
type Stacks struct {
	PIDs     []int         `json:"pids"`
	Deadline time.Duration `json:"deadline"`
}

// Run makes py-spy read each process twice, if py-spy is installed. It does not stop the process. It
// reads no values of variables, because they could be confidential.
func (s Stacks) Run(ctx context.Context) []facts.Stack {
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	stacks := make([]facts.Stack, len(s.PIDs))
	places := make(chan struct{}, stacksAtOnce)
	var all sync.WaitGroup
	for i, pid := range s.PIDs {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			stacks[i] = stackOf(ctx, pid)
		})
	}
	all.Wait()
	return stacks
}

func stackOf(ctx context.Context, pid int) facts.Stack {
	stack := facts.Stack{PID: pid}
	program, err := pySpy(pid)
	if err != nil {
		stack.Problem = err.Error()
		return stack
	}
	if stack, err = dumpOf(ctx, program, pid); err != nil {
		stack.Problem = err.Error()
		return stack
	}
	select {
	case <-time.After(stackGap):
	case <-ctx.Done():
	}
	if again, err := dumpOf(ctx, program, pid); err == nil {
		stack.Changed = !slices.Equal(stack.First(), again.First())
	}
	return stack
}

// dumpOf returns one dump of a process.
func dumpOf(ctx context.Context, program string, pid int) (facts.Stack, error) {
	stack := facts.Stack{PID: pid}
	out, errs, err := hostsys.Child{Path: program, Args: []string{"dump", "--nonblocking", "--pid", fmt.Sprint(pid)}, Limit: stackTime}.Run(ctx)
	if err != nil {
		return stack, errors.New("py-spy: " + cmp.Or(lastLine(errs), err.Error()))
	}
	stack.Lines = threads(out)
	return stack, nil
}

// pySpy returns the path of py-spy. It searches PATH, and the directory of the interpreter with
// which the process was started, as in a virtual environment. If another user runs the process,
// that user controls that directory, so preflight must not run a program from it.
func pySpy(pid int) (string, error) {
	if program, err := exec.LookPath("py-spy"); err == nil {
		return program, nil
	}
	none := errors.New("py-spy is not installed there")
	process, err := procfs.NewProc(pid)
	if err != nil {
		return "", none // the process has ended
	}
	words, err := process.CmdLine()
	if err != nil || len(words) == 0 || !filepath.IsAbs(words[0]) {
		return "", none
	}
	program, err := exec.LookPath(filepath.Join(filepath.Dir(words[0]), "py-spy"))
	if err != nil {
		return "", none
	}
	// If a process may not be dumped, its directory in /proc belongs to root, whichever user runs
	// it.
	status, err := process.NewStatus()
	if us := uint64(os.Geteuid()); err != nil || status.UIDs != [4]uint64{us, us, us, us} {
		return "", errors.New("py-spy is not in PATH, and preflight does not run the py-spy next to another user's interpreter: run preflight as that user")
	}
	return program, nil
}

// threads returns the lines of a dump about threads and their frames. The lines before the first
// thread contain the command line, whose arguments are private (py-spy 0.4, src/dump.rs).
func threads(dump string) (lines []string) {
	for line := range strings.Lines(dump) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case !strings.HasPrefix(line, "Thread ") && lines == nil, strings.TrimSpace(line) == "":
		case len(lines) == mostStackLines:
			return append(lines, "…")
		default:
			lines = append(lines, line)
		}
	}
	return lines
}
