// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"preflight/facts"
	"preflight/hostsys"
)

const (
	// stackTime is what py-spy gets for one process: it reads it in a second, and finds out how to
	// by the symbols of its Python.
	stackTime = 5 * time.Second
	// stacksAtOnce keeps a node that trains from being slowed down by us.
	stacksAtOnce = 2
	// mostStackLines is more than any rank shows that waits.
	mostStackLines = 60
)

// Stacks is of which processes it is wanted where their Python is.
type Stacks struct {
	PIDs     []int         `json:"pids"`
	Deadline time.Duration `json:"deadline"`
}

// Run has py-spy look into each, where it is installed: without stopping it, and without the
// values of any variable, which may be anything.
func (s Stacks) Run(ctx context.Context) []facts.Stack {
	ctx, cancel := hostsys.WithTimeout(ctx, s.Deadline)
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
	program := pySpy(pid)
	if program == "" {
		stack.Problem = "py-spy is not installed there"
		return stack
	}
	out, errs, err := hostsys.Child{Path: program, Args: []string{"dump", "--nonblocking", "--pid", fmt.Sprint(pid)}, Limit: stackTime}.Run(ctx)
	if err != nil {
		stack.Problem = "py-spy: " + cmp.Or(lastLine(errs), err.Error())
		return stack
	}
	stack.Lines = threads(out)
	return stack
}

// pySpy is the program: on our path, or beside the interpreter that the process was started by,
// as in a virtual environment. "" is for none.
func pySpy(pid int) string {
	if program, err := exec.LookPath("py-spy"); err == nil {
		return program
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it has ended then
	interpreter, _, _ := strings.Cut(string(line), "\x00")
	if !filepath.IsAbs(interpreter) {
		return ""
	}
	program, err := exec.LookPath(filepath.Join(filepath.Dir(interpreter), "py-spy"))
	if err != nil {
		return ""
	}
	return program
}

// threads are the lines of a dump about threads and their frames. What stands before the first
// has the command line, whose arguments are nobody's business (py-spy 0.4, src/dump.rs).
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
