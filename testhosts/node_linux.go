// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Node is one machine of a Cluster: a process, a network, a mount, a host name
// and an IPC namespace.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"` // of eth0, in 10.77.0.0/16

	cluster *Cluster
	pid     int // of its first process, as this machine numbers it
	pidfd   int
}

const machineNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// boot starts the node's first process; awaitSSHD returns when it is through.
func (n *Node) boot() error { return n.spawn(machineNamespaces) }

func (n *Node) spawn(namespaces uintptr) error {
	if err := os.MkdirAll(filepath.Join(n.cluster.dir, n.Name, "rw"), 0o755); err != nil {
		return err
	}
	log, err := os.Create(n.logPath())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/bin/sh", filepath.Join(n.cluster.dir, "node.sh"), n.Name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + standardPath}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces &^ unix.CLONE_NEWNS}
	if namespaces&unix.CLONE_NEWNS != 0 {
		// By unshare and not by clone, because then Go makes every mount
		// private first: nothing mounted in a node is seen outside.
		cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: this machine does not let root make namespaces (a container without CAP_SYS_ADMIN?)", err)
		}
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	n.cluster.waiting.Go(func() { cmd.Wait() })
	n.pid = cmd.Process.Pid
	if n.pidfd, err = unix.PidfdOpen(n.pid, 0); err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) logPath() string { return filepath.Join(n.cluster.dir, n.Name, "log") }

func (n *Node) closePidfd() {
	if n.pidfd >= 0 {
		unix.Close(n.pidfd)
		n.pidfd = -1
	}
}

// bootPatience is more than a busy machine needs for its largest cluster.
const bootPatience = 2 * time.Minute

// awaitSSHD returns when the node's sshd listens, or why it never will.
func (n *Node) awaitSSHD(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	pidFile := fmt.Sprintf("/proc/%d/root%s", n.pid, sshdPid)
	for {
		if _, err := os.Stat(pidFile); err == nil {
			return nil
		}
		if n.dead() {
			return n.startFailure()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: waiting for sshd: %w", n.Name, ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// startFailure is the death of the node in its own last words.
func (n *Node) startFailure() error {
	log, err := os.ReadFile(n.logPath())
	if err != nil {
		return fmt.Errorf("%s did not start: %w", n.Name, err)
	}
	return fmt.Errorf("%s did not start: %s", n.Name, bytes.TrimSpace(log))
}

func (n *Node) dead() bool {
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(n.pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && ready > 0
}

// inside calls f in the node's namespaces (processes f starts are in its
// process table, too). f must leave its goroutine to nobody else.
func (n *Node) inside(f func() error) error {
	return onThreadOfItsOwn(func() error {
		// A thread that shares its root directory with others may not change
		// its mount namespace.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("enter %s: %w", n.Name, err)
		}
		if err := unix.Setns(n.pidfd, machineNamespaces); err != nil {
			return fmt.Errorf("enter %s: %w", n.Name, err)
		}
		return f()
	})
}

// onThreadOfItsOwn calls f on a thread that ends with it. The main thread never
// ends and speaks for the process in /proc/self, so it is passed over.
func onThreadOfItsOwn(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // without an unlock the thread dies with the goroutine
		if unix.Gettid() == unix.Getpid() {
			result <- onThreadOfItsOwn(f)
			runtime.UnlockOSThread()
			return
		}
		result <- f()
	}()
	return <-result
}

// initProcesses finds the first process of every node of the cluster in that
// directory, by node. The process table is the only truth about what runs.
func initProcesses(dir string) (map[string]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	script := filepath.Join(dir, "node.sh")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// Processes may end while we look, so errors mean "not this one".
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := strings.Split(string(line), "\x00")
		if len(args) < 3 || args[1] != script {
			continue
		}
		// A child that has not become its command yet looks the same.
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(status)) {
			if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
				fields := strings.Fields(ids)
				if len(fields) > 1 && fields[len(fields)-1] == "1" {
					found[args[2]] = pid
				}
			}
		}
	}
	return found, nil
}

// Restart ends the node as a power cut does and starts it as it was raised:
// every fault healed, every file it had written lost. As its host key is the
// old one again, the other machines know it again.
func (n *Node) Restart(ctx context.Context) error {
	if err := unix.Kill(n.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("restart %s: %w", n.Name, err)
	}
	for !n.dead() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
	n.closePidfd()
	if err := n.boot(); err != nil {
		return err
	}
	if err := n.cluster.wire([]*Node{n}); err != nil {
		return err
	}
	if err := n.endTwin(); err != nil {
		return err
	}
	if err := n.awaitSSHD(ctx); err != nil {
		return err
	}
	if n.cluster.Slurm {
		if err := n.startSlurm(ctx); err != nil {
			return err
		}
	}
	return n.cluster.knowAgain(ctx, n)
}

// WriteFile writes a file of the node, with the directories above it.
func (n *Node) WriteFile(name string, text []byte, mode fs.FileMode) error {
	return n.inside(func() error {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return os.WriteFile(name, text, mode)
	})
}

// Cmd is an [exec.Cmd] that starts inside a node. It is a direct child of the
// calling process: signals, pipes and the exit status are the command's own.
type Cmd struct {
	*exec.Cmd
	node *Node
}

// Command prepares argv to run on the node as root would after logging in: in
// /root, with Debian's PATH and nothing of the caller's environment.
func (n *Node) Command(ctx context.Context, argv ...string) *Cmd {
	cmd := exec.CommandContext(ctx, n.lookPath(argv[0]), argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Dir = "/root"
	cmd.Env = []string{"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "PATH=" + standardPath, "LANG=C.UTF-8"}
	return &Cmd{Cmd: cmd, node: n}
}

// OnHead prepares argv to run on the head, in the caller's directory where the
// head sees it (see Options.Share) and in /root where it does not. To launch from
// a directory that nodes may lack, set Dir to one that Put wrote to; to launch
// with a variable that troubles it, append to Env.
func (c *Cluster) OnHead(ctx context.Context, argv ...string) *Cmd {
	cmd := c.Head.Command(ctx, argv...)
	if here, err := os.Getwd(); err == nil && c.Head.has(here+"/.") {
		cmd.Dir = here
	}
	return cmd
}

// lookPath finds a command as the node would. What is not found is returned as
// it is, and Start says so.
func (n *Node) lookPath(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range filepath.SplitList(standardPath) {
		info, err := os.Stat(filepath.Join(fmt.Sprintf("/proc/%d/root", n.pid), dir, name))
		if err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return filepath.Join(dir, name)
		}
	}
	return "/nonexistent/" + name
}

// Start is [exec.Cmd.Start], inside the node.
func (c *Cmd) Start() error { return c.node.inside(c.Cmd.Start) }

// Run is [exec.Cmd.Run], inside the node.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output is [exec.Cmd.Output], inside the node.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput is [exec.Cmd.CombinedOutput], inside the node.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// shell runs a script on the node. It takes no context: what plants a fault is over at
// once, and what takes it back must run when the test's context has ended.
func (n *Node) shell(script string) (string, error) {
	return n.Run(context.Background(), "/bin/sh", "-c", script)
}

// Run runs argv on the node and returns what it printed on both outputs. The
// error, if any, has it as well.
func (n *Node) Run(ctx context.Context, argv ...string) (string, error) {
	out, err := n.Command(ctx, argv...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %s: %w: %s", n.Name, strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return string(out), err
}
