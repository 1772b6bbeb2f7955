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
	// MaxOutput caps what is kept of each of a child's two streams; the rest is
	// read and dropped, so that a chatty child cannot block or fill us.
	MaxOutput = 256 << 10
	// Grace is how long the pipes of a child that has ended may stay open, in case a
	// grandchild of another process group holds them.
	Grace = 200 * time.Millisecond
	// mostTries is how often a child is started that this machine has nothing left for, and tryAgain
	// how long it is waited between.
	mostTries = 50
	tryAgain  = 20 * time.Millisecond
	// pipeSize is the most that lies in a pipe unread: pipe(7), and as much on macOS.
	pipeSize = 64 << 10
)

// Child is a program that must be run because only it knows the answer. Its
// arguments never pass through a shell.
type Child struct {
	Path string
	Args []string
	Name string   // what it is called by; "" means its path
	Dir  string   // "" means our own
	Env  []string // nil means our own

	Limit time.Duration // after which it is killed as at the end of the context; 0 means no limit
}

// Run starts the child in a process group of its own, kills that whole group
// when ctx ends and returns what was printed, MaxOutput bytes of each stream at
// most. Standard input is empty.
//
// The error says how the child ended; when ctx ended first it is ctx's. Where this machine has nothing
// left to start one with, that is tried for a second, and the error says so.
func (c Child) Run(ctx context.Context) (stdout, stderr string, err error) {
	var out output
	stderr, err = c.Stream(ctx, &out)
	return out.String(), stderr, err
}

// Stream is Run for a child whose standard output is wanted as it comes.
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
		select { // what else runs beside it gives back what it has
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

// Run is [exec.Cmd.Run] for a program that dies with us even when we are killed
// (on Linux; elsewhere only its closed pipes tell it). It leads a process group
// of its own, or a session where its SysProcAttr asks for one.
//
// All that it has written is read, however late we come to it; [exec.ErrWaitDelay]
// says that somebody else still held its pipes after Grace. What exec.Cmd has for
// that, WaitDelay, loses what is unread by then.
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
	// Linux kills the child when the thread that forked it ends, so that thread
	// has to outlive the child.
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
		_ = file.SetReadDeadline(time.Now().Add(Grace)) // of a pipe, it can be set
	}
	return cmp.Or(err, read.Wait())
}

// readOut copies a program's pipe to its end, or to where it was when the deadline
// came that is set once the program has ended.
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
		_ = raw.Read(func(fd uintptr) bool { // without waiting
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

// Start is Run for a program that goes on beside us. The channel is closed when
// it has ended and been waited for.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	started, end := make(chan error), make(chan struct{})
	go func() {
		defer close(end)
		runtime.LockOSThread() // as in Run
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
// Before it runs the program, Go moves the child's files to numbers above the highest one
// that it hands over. A number beyond the limit of open files is EBADF to the kernel, and would
// hide that files are short. Source: Go 1.26, syscall/exec_linux.go; dup(2).
func start(cmd *exec.Cmd) error {
	ownGroup(cmd)
	err := cmd.Start()
	if errors.Is(err, syscall.EBADF) {
		return &os.PathError{Op: "start", Path: cmd.Path, Err: syscall.EMFILE}
	}
	return err
}

// KillGroup ends a program of Run or Start and whatever it started, as long as
// it has not been waited for.
func KillGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	dieWithUs(cmd.SysProcAttr)
}

// Complaint is why a child failed: its own last line, or how it ended.
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

// output keeps the first MaxOutput bytes of what is written to it, and swallows the
// rest. It does not embed its buffer, whose ReadFrom io.Copy would prefer to Write.
type output struct{ kept bytes.Buffer }

func (o *output) Write(p []byte) (int, error) {
	o.kept.Write(p[:min(MaxOutput-o.kept.Len(), len(p))])
	return len(p), nil
}

// String is what was kept.
func (o *output) String() string { return o.kept.String() }

// Lines is a writer that hands on what is written to it line by line, each without its end and cut
// at Most bytes. A line is good until Take returns.
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

// Flush hands on a line that has no end.
func (l *Lines) Flush() {
	l.Take(l.line)
	l.line = l.line[:0]
}

// shortages are what a system call fails with when the machine it is made on has run out
// of something, whoever was to be reached: socket(2), connect(2), accept(2), fork(2).
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

// Shortage is what this machine has too little of where that is what failed, "" where
// it is not. Of what a resolver asked in vain only the words are left.
func Shortage(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	for _, short := range shortages {
		if errors.Is(err, short.errno) || isDNS && strings.HasSuffix(dns.Err, short.errno.Error()) {
			return short.of
		}
	}
	return ""
}

// OpenFiles is how many files this process has open, and how many it may have: the hard
// limit, as Go raises the soft one to it when a program starts (package os). ok is false
// where the system does not tell.
func OpenFiles() (open, most int, ok bool) {
	var limit syscall.Rlimit
	listed, err := os.ReadDir("/dev/fd")
	if err != nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0, 0, false
	}
	const unlimited = 1 << 30
	return len(listed) - 1, int(min(limit.Cur, unlimited)), true // one of them was the list's own
}
