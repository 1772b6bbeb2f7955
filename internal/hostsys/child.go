// SPDX-License-Identifier: Apache-2.0

package hostsys

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// MaxOutput is the maximum number of bytes that are kept of each of a child's two streams. The
	// rest is read and dropped, so that a child that prints much neither blocks nor fills our
	// memory.
	MaxOutput = 256 << 10
	// Grace is how long the pipes of an ended child may stay open, in case a grandchild of another
	// process group holds them.
	Grace = 200 * time.Millisecond
	// mostTries is how often Run tries to start a child if this machine lacks resources for it.
	// tryAgain is the pause between two tries.
	mostTries = 50
	tryAgain  = 20 * time.Millisecond
	// pipeSize is the maximum number of unread bytes in a pipe (pipe(7), the same on macOS).
	pipeSize = 64 << 10
)

// Child is a program that preflight must run, because only the program knows the answer. Its
// arguments never pass through a shell.
type Child struct {
	Path string
	Args []string
	Name string   // argv[0] of the child; "" means its path
	Dir  string   // working directory; "" means that of this process
	Env  []string // environment; nil means that of this process

	Limit time.Duration // time after which the child is killed, as at the end of the context; 0 means no limit
}

// Run starts the child in its own process group and returns its output, at most MaxOutput bytes of
// each stream. It kills the whole group when ctx ends. Standard input is empty.
//
// The error says how the child ended. If ctx ended first, it is ctx's error. If this machine lacks
// resources to start the child, Run tries for a second and then reports the lack.
func (c Child) Run(ctx context.Context) (stdout, stderr string, err error) {
	var out output
	stderr, err = c.Stream(ctx, &out)
	return out.String(), stderr, err
}

// Stream works like Run for a child whose standard output is needed while the child runs.
func (c Child) Stream(ctx context.Context, stdout io.Writer) (stderr string, err error) {
	if c.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Limit)
		defer cancel()
	}
	var errs output
	for tries := 1; ; tries++ {
		cmd := exec.CommandContext(ctx, c.Path, c.Args...)
		cmd.Args[0] = cmp.Or(c.Name, c.Path)
		cmd.Dir, cmd.Env = c.Dir, c.Env
		cmd.Stdout, cmd.Stderr = stdout, &errs
		cmd.Cancel = func() error { return KillGroup(cmd) }
		if err = Run(cmd); cmd.Process != nil || Shortage(err) == "" || tries == mostTries {
			break
		}
		select { // other goroutines may free resources during the pause
		case <-time.After(tryAgain):
		case <-ctx.Done():
			return "", err
		}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return errs.String(), err
}

// Run works like [exec.Cmd.Run], but the program also ends if this process is killed. That holds on
// Linux; on other systems only its closed pipes stop the program. The program leads its own process
// group, or a session if its SysProcAttr asks for one.
//
// Run reads all of the program's output, even if it reads late. [exec.ErrWaitDelay] means that
// another process still held the pipes after Grace. exec.Cmd's own WaitDelay would lose output that
// is unread at that time.
func Run(cmd *exec.Cmd) error {
	var read errgroup.Group
	var ours, theirs []*os.File
	defer func() {
		for _, file := range slices.Concat(ours, theirs) {
			file.Close()
		}
	}()
	for _, stream := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		if *stream == nil {
			continue
		}
		from, into, err := os.Pipe()
		if err != nil {
			return err
		}
		to := *stream
		*stream = into
		ours, theirs = append(ours, from), append(theirs, into)
		read.Go(func() error { return readOut(from, to) })
	}
	// Linux kills the child when the thread that forked it ends, so this thread must outlive the
	// child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := start(cmd)
	for _, file := range theirs {
		file.Close()
	}
	if err == nil {
		err = cmd.Wait()
	}
	for _, file := range ours {
		_ = file.SetReadDeadline(time.Now().Add(Grace)) // never fails, because pipes support deadlines
	}
	return cmp.Or(err, read.Wait())
}

// readOut copies a program's pipe to its end. If the deadline that is set after the program's end
// comes first, readOut copies what the pipe holds at that time.
func readOut(pipe *os.File, to io.Writer) error {
	_, err := io.Copy(to, pipe)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	_ = pipe.SetReadDeadline(time.Time{})
	raw, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	left := make([]byte, pipeSize)
	for size := 0; size < len(left); {
		n := 0
		_ = raw.Read(func(fd uintptr) bool { // reads without waiting
			n, err = syscall.Read(int(fd), left[size:])
			return true
		})
		switch {
		case err == syscall.EINTR:
			continue
		case n > 0:
			size += n
			if _, err := to.Write(left[size-n : size]); err != nil {
				return err
			}
			continue
		case err == nil:
			return nil
		}
		break
	}
	return exec.ErrWaitDelay
}

// Start works like Run for a program that runs in parallel. The channel is closed when the program
// has ended and was waited for.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	started, end := make(chan error), make(chan struct{})
	go func() {
		defer close(end)
		runtime.LockOSThread() // for the same reason as in Run
		defer runtime.UnlockOSThread()
		err := start(cmd)
		started <- err
		if err == nil {
			cmd.Wait()
		}
	}()
	return end, <-started
}

// start starts a program in a process group of its own.
//
// Before Go runs the program, it moves the child's files to descriptors above the highest one that
// it passes on. For a descriptor beyond the limit of open files, the kernel returns EBADF, which
// would hide that the limit is the problem. Source: Go 1.26, syscall/exec_linux.go; dup(2).
func start(cmd *exec.Cmd) error {
	ownGroup(cmd)
	err := cmd.Start()
	if errors.Is(err, syscall.EBADF) {
		return &os.PathError{Op: "start", Path: cmd.Path, Err: syscall.EMFILE}
	}
	return err
}

// KillGroup kills a program that Run or Start started, and all processes that the program started.
// It must be called before the program was waited for.
func KillGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	dieWithUs(cmd.SysProcAttr)
}

// Complaint returns why a child failed: the last line of its stderr, or how it ended.
func Complaint(stderr string, err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time; it was killed"
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	if exit, ended := errors.AsType[*exec.ExitError](err); ended {
		return fmt.Sprintf("ended with %s and said nothing", exit.ProcessState)
	}
	return err.Error()
}

// output keeps the first MaxOutput bytes that are written to it and drops the rest. It does not
// embed its buffer, because io.Copy would prefer the buffer's ReadFrom to Write.
type output struct{ kept bytes.Buffer }

func (o *output) Write(p []byte) (int, error) {
	o.kept.Write(p[:min(MaxOutput-o.kept.Len(), len(p))])
	return len(p), nil
}

// String returns the kept bytes.
func (o *output) String() string { return o.kept.String() }

// Lines is a writer that splits its input into lines and passes each to Take, without its line end
// and cut at Most bytes. A line is valid until Take returns.
type Lines struct {
	Most int
	Take func(line []byte)
	line []byte
}

func (l *Lines) Write(p []byte) (int, error) {
	for text := range bytes.Lines(p) {
		part, ends := bytes.CutSuffix(text, []byte("\n"))
		l.line = append(l.line, part[:min(len(part), l.Most-len(l.line))]...)
		if ends {
			l.Flush()
		}
	}
	return len(p), nil
}

// Flush passes on a last line that has no line end.
func (l *Lines) Flush() {
	l.Take(l.line)
	l.line = l.line[:0]
}

// shortages lists the errors of a system call that mean that this machine has reached a limit,
// regardless of the peer: socket(2), connect(2), accept(2), fork(2).
var shortages = []struct {
	errno syscall.Errno
	of    string
}{
	{syscall.EMFILE, "files to open in one process"},
	{syscall.ENFILE, "files to open in all processes"},
	{syscall.EAGAIN, "processes and threads"},
	{syscall.ENOMEM, "memory"},
	{syscall.ENOBUFS, "memory for the network"},
	{syscall.EADDRNOTAVAIL, "addresses and ports to call from"},
}

// Shortage returns the resource that this machine lacks according to err, "" if err has another
// cause. A resolver's error keeps only the text of the system's error.
func Shortage(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	for _, short := range shortages {
		if errors.Is(err, short.errno) || isDNS && strings.HasSuffix(dns.Err, short.errno.Error()) {
			return short.of
		}
	}
	return ""
}

// OpenFiles returns how many files this process has open, and how many it may open. The second
// number is the hard limit, because Go raises the soft limit to it at the start of a program
// (package os). ok is false if the system does not report these numbers.
func OpenFiles() (open, most int, ok bool) {
	var limit syscall.Rlimit
	listed, err := os.ReadDir("/dev/fd")
	if err != nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0, 0, false
	}
	const unlimited = 1 << 30
	return len(listed) - 1, int(min(limit.Cur, unlimited)), true // minus one for the directory that was listed
}
