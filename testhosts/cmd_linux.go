package testhosts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

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
	if here, err := os.Getwd(); err == nil && c.Head.sees(here) {
		cmd.Dir = here
	}
	return cmd
}

// sees tells whether the node has that directory.
func (n *Node) sees(dir string) bool {
	return n.inside(func() error {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
		return err
	}) == nil
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

// Run runs argv on the node and returns what it printed on both outputs. The
// error, if any, has it as well.
func (n *Node) Run(ctx context.Context, argv ...string) (string, error) {
	out, err := n.Command(ctx, argv...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %s: %w: %s", n.Name, strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return string(out), err
}
