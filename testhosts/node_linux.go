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

// Node is one machine of a Cluster: namespaces for processes, network, mounts, host name and IPC.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"` // address of eth0, in 10.77.0.0/16

	cluster *Cluster
	pid     int // PID of the node's first process in this machine's process table
	pidfd   int
}

const machineNamespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// boot starts the node's first process. awaitSSHD returns when the node is up.
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
		// This uses unshare and not clone, because Go then makes every mount private first. Mounts
		// in a node are not visible outside.
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

// bootPatience is longer than a busy machine needs to start the largest cluster.
const bootPatience = 2 * time.Minute

// awaitSSHD returns nil when the node's sshd listens. If sshd will never listen, it returns the
// reason.
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

// startFailure returns the end of the output of a node that has died.
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

// inside calls f in the node's namespaces. Processes that f starts are also in the node's process
// table. f must not start goroutines that outlive the call.
func (n *Node) inside(f func() error) error {
	return onThreadOfItsOwn(func() error {
		// A thread that shares its root directory with other threads may not change its mount
		// namespace.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("enter %s: %w", n.Name, err)
		}
		if err := unix.Setns(n.pidfd, machineNamespaces); err != nil {
			return fmt.Errorf("enter %s: %w", n.Name, err)
		}
		return f()
	})
}

// onThreadOfItsOwn calls f on a thread that ends after the call. It does not use the main thread,
// which never ends and represents the process in /proc/self.
func onThreadOfItsOwn(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // without an unlock, the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			result <- onThreadOfItsOwn(f)
			runtime.UnlockOSThread()
			return
		}
		result <- f()
	}()
	return <-result
}

// initProcesses returns the PID of each node's first process, by node. dir is the directory of the
// cluster. Only the process table shows reliably which nodes run.
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
		// A process may end at any moment, so after an error continue with the next process.
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := strings.Split(string(line), "\x00")
		if len(args) < 3 || args[1] != script {
			continue
		}
		// A child that has not yet executed its command has the same command line.
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

// Restart ends the node like a power cut and starts it again in its original state. All faults are
// healed, and all files that the node has written are lost. The node has its original host key
// again, and Restart restores that key in known_hosts on the other machines.
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

// WriteFile writes a file of the node, and creates its parent directories.
func (n *Node) WriteFile(name string, text []byte, mode fs.FileMode) error {
	return n.inside(func() error {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return os.WriteFile(name, text, mode)
	})
}

// Cmd is an [exec.Cmd] that starts in a node. The command is a direct child of the calling process,
// so signals, pipes and the exit status work as for any command.
type Cmd struct {
	*exec.Cmd
	node *Node
}

// Command returns a Cmd that runs argv on the node like root after a login: in /root, with Debian's
// PATH, and without the caller's environment.
func (n *Node) Command(ctx context.Context, argv ...string) *Cmd {
	cmd := exec.CommandContext(ctx, n.lookPath(argv[0]), argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Dir = "/root"
	cmd.Env = []string{"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "PATH=" + standardPath, "LANG=C.UTF-8"}
	return &Cmd{Cmd: cmd, node: n}
}

// OnHead returns a Cmd that runs argv on the launching machine. Its directory is the caller's, or
// /root if the launching machine cannot see the caller's directory (see Options.Share). To launch
// from a directory that nodes may lack, set Dir to a directory that Put has written to. To launch
// with a variable, append it to Env.
func (c *Cluster) OnHead(ctx context.Context, argv ...string) *Cmd {
	cmd := c.Head.Command(ctx, argv...)
	if here, err := os.Getwd(); err == nil && c.Head.has(here+"/.") {
		cmd.Dir = here
	}
	return cmd
}

// lookPath finds a command in the node's PATH. If there is no such command, it returns a path that
// does not exist, so Start fails.
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

// Start does the same as [exec.Cmd.Start], inside the node.
func (c *Cmd) Start() error { return c.node.inside(c.Cmd.Start) }

// Run does the same as [exec.Cmd.Run], inside the node.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output does the same as [exec.Cmd.Output], inside the node.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput does the same as [exec.Cmd.CombinedOutput], inside the node.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// shell runs a script on the node. It takes no context, because causing a fault takes little time
// and Undo must work after the context of the test has ended.
func (n *Node) shell(script string) (string, error) {
	return n.Run(context.Background(), "/bin/sh", "-c", script)
}

// Run runs argv on the node and returns its standard output and standard error. An error also
// contains this output.
func (n *Node) Run(ctx context.Context, argv ...string) (string, error) {
	out, err := n.Command(ctx, argv...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %s: %w: %s", n.Name, strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return string(out), err
}
