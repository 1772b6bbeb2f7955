package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// childOutput caps what is kept of each of a child's two streams; the
	// rest is read and dropped, so that a chatty child cannot block or fill us.
	childOutput = 256 << 10
	// childGrace is how long a killed child's pipes may stay open, in case a
	// grandchild of another process group holds them.
	childGrace = 200 * time.Millisecond
)

// child is a program that must be run because only it knows the answer. Its
// arguments never pass through a shell.
type child struct {
	path string
	args []string
	name string   // what it is called by; "" means its path
	dir  string   // "" means our own
	env  []string // nil means our own
}

// run starts the child in a process group of its own, kills that whole group
// when ctx ends and returns what was printed. Standard input is empty.
//
// The error says how the child ended; when ctx ended first it is ctx's.
func (c child) run(ctx context.Context) (stdout, stderr string, err error) {
	var out cappedBuffer
	stderr, err = c.stream(ctx, &out)
	return out.kept.String(), stderr, err
}

// stream is run for a child whose standard output is wanted as it comes.
func (c child) stream(ctx context.Context, stdout io.Writer) (stderr string, err error) {
	// Linux kills the child when the thread that forked it ends, so that thread
	// has to outlive the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var errs cappedBuffer
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Args[0] = cmp.Or(c.name, c.path)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.Stdout, cmd.Stderr = stdout, &errs
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = childGrace

	err = cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return errs.kept.String(), err
}

// complaint is why a child failed: its own last line, or how it ended.
func complaint(stderr string, err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time; it was killed"
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Sprintf("ended with %s and said nothing", exit.ProcessState)
	}
	return err.Error()
}

// cappedBuffer keeps the first bytes up to its limit, childOutput where it has
// none, and swallows the rest. It does not embed its buffer, whose ReadFrom
// io.Copy would prefer to Write.
type cappedBuffer struct {
	kept  bytes.Buffer
	limit int
}

func (b *cappedBuffer) Write(p []byte) (int, error) {
	b.kept.Write(p[:min(cmp.Or(b.limit, childOutput)-b.kept.Len(), len(p))])
	return len(p), nil
}
