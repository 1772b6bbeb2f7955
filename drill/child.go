package drill

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// maxPrinted bounds what is kept of what a child prints.
	maxPrinted = 64 << 10
	// childGrace is how long the pipes of a killed child may stay open.
	childGrace = 200 * time.Millisecond
)

// runChild runs a program without a terminal, without input and in the language
// of C, in a process group that ends with ctx.
func runChild(ctx context.Context, path string, args ...string) (stdout, stderr string, err error) {
	defer holdThread()()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = &capped{kept: &out}, &capped{kept: &errs}
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = childGrace
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// capped keeps the first maxPrinted bytes and swallows the rest.
type capped struct{ kept *strings.Builder }

func (c *capped) Write(p []byte) (int, error) {
	c.kept.Write(p[:min(len(p), maxPrinted-c.kept.Len())])
	return len(p), nil
}
