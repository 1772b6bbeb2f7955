// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Account counts the processor time of a cluster's nodes, and of the commands that are charged to
// its launching machine. It uses two control groups, so it also counts processes for which no other
// process waited.
type Account struct {
	dir  string
	head *os.File // the directory of the launching machine's group
}

// Account begins to count the processor time of the nodes.
func (c *Cluster) Account() (a *Account, err error) {
	root, err := controlGroups()
	if err != nil {
		return nil, err
	}
	a = &Account{dir: filepath.Join(root, "preflight-testhosts-"+c.Name)}
	for _, group := range []string{"head", "nodes"} {
		if err := os.MkdirAll(filepath.Join(a.dir, group), 0o755); err != nil {
			return nil, err
		}
	}
	if a.head, err = os.Open(filepath.Join(a.dir, "head")); err != nil {
		return nil, err
	}
	processes, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, process := range processes {
		if stat, err := process.Stat(); err == nil { // otherwise the process has ended
			children[stat.PPID] = append(children[stat.PPID], process.PID)
		}
	}
	var those []int
	for _, node := range c.Nodes {
		those = append(those, node.pid)
	}
	for i := 0; i < len(those); i++ {
		those = append(those, children[those[i]]...)
		err := os.WriteFile(filepath.Join(a.dir, "nodes", "cgroup.procs"), []byte(strconv.Itoa(those[i])), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, err
		}
	}
	return a, nil
}

// controlGroups returns where the machine has its control groups of version 2. Every such group
// counts processor time, even where version 1 has the controllers.
func controlGroups() (string, error) {
	for _, path := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var at unix.Statfs_t
		if unix.Statfs(path, &at) == nil && at.Type == unix.CGROUP2_SUPER_MAGIC {
			return path, nil
		}
	}
	return "", errors.New("processor time cannot be measured: no control groups of version 2 in /sys/fs/cgroup")
}

// Charge makes a command that has not started yet count as one of the launching machine.
func (a *Account) Charge(cmd *Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(a.head.Fd())
}

// CPU returns the processor time of the launching machine and of all nodes so far.
func (a *Account) CPU() (head, nodes time.Duration, err error) {
	used := func(group string) time.Duration {
		text, failure := os.ReadFile(filepath.Join(a.dir, group, "cpu.stat"))
		var microseconds int64
		if _, scan := fmt.Sscanf(string(text), "usage_usec %d", &microseconds); failure == nil {
			failure = scan
		}
		err = errors.Join(err, failure)
		return time.Duration(microseconds) * time.Microsecond
	}
	return used("head"), used("nodes"), err
}

// Close removes the groups. The cluster must be down.
func (a *Account) Close() (err error) {
	err = a.head.Close()
	for _, group := range []string{"head", "nodes", ""} {
		err = errors.Join(err, os.Remove(filepath.Join(a.dir, group)))
	}
	return err
}
