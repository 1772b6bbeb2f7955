// SPDX-License-Identifier: Apache-2.0

package testhosts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// stateRoot holds one directory per cluster. It is on a file system that does
// not outlive the machine's run, as the clusters do not.
const stateRoot = "/run/preflight-testhosts"

// ErrExists is what Raise returns when a cluster of that name is up, or was
// left half up by a process that died. [Remove] ends either.
var ErrExists = errors.New("a cluster of that name exists")

// ErrNotUp is what Attach returns when no complete cluster has that name.
var ErrNotUp = errors.New("no cluster of that name is up")

// Options say what to raise.
type Options struct {
	Name  string // of the cluster; a path element. "" is pf
	Nodes int    // how many, at least 1 and at most 2,000
	Slots int    // per node, for the hostfile; 0 means 8

	// Share lists directories of this machine that every node sees at the
	// same path, although they lie below one that is its own (/root, /tmp,
	// /var/tmp). nil shares the current directory.
	Share []string

	// LightLogins has sshd agree on X25519 alone. The hybrid with a post-quantum
	// exchange that OpenSSH prefers is two thirds of what a login costs, and a test
	// of a hundred runs logs in some thousand times.
	LightLogins bool

	// Slurm has its controller run on the head and a slurmd on every node, which gives out
	// the slots as processors and as GPUs (see InSlurmJob).
	Slurm bool
}

// Cluster is a set of nodes on one Ethernet segment, 10.77.0.0/16, that no
// other namespace of the machine is connected to. Every node can log in to
// every other as root with a key, and knows all host keys.
type Cluster struct {
	Name  string  `json:"name"`
	Slots int     `json:"slots"`
	Slurm bool    `json:"slurm,omitempty"`
	Head  *Node   `json:"head"`  // NAME-head, 10.77.0.1: where launches are typed; not in the hostfile
	Nodes []*Node `json:"nodes"` // w1 … wN, 10.77.1.1 and up

	dir     string
	sw      *Node // holds the bridge
	waiting sync.WaitGroup
}

// HostfilePath is where every node has the cluster's hostfile.
const HostfilePath = "/root/hostfile"

// Raise starts a cluster and returns when every sshd listens. It needs root.
// The cluster outlives the process; what fails half way is taken down again.
func Raise(ctx context.Context, options Options) (*Cluster, error) {
	c, err := newCluster(&options)
	if err != nil {
		return nil, err
	}
	if err := c.claim(); err != nil {
		return nil, fmt.Errorf("raise %s: %w", c.Name, err)
	}
	if err := c.raise(ctx, options); err != nil {
		return nil, errors.Join(fmt.Errorf("raise %s: %w", c.Name, err), c.Down())
	}
	return c, nil
}

// claim makes the cluster's directory, which one Raise of that name can only.
func (c *Cluster) claim() error {
	for {
		if err := os.MkdirAll(stateRoot, 0o755); err != nil {
			return err
		}
		err := os.Mkdir(c.dir, 0o700)
		switch {
		case errors.Is(err, fs.ErrExist):
			return ErrExists
		case errors.Is(err, fs.ErrNotExist): // the last cluster but us has just taken the root with it
			continue
		}
		return err
	}
}

func newCluster(options *Options) (*Cluster, error) {
	options.Name, options.Slots = cmp.Or(options.Name, "pf"), cmp.Or(options.Slots, 8)
	switch {
	case os.Geteuid() != 0:
		return nil, errors.New("namespace hosts need root: run this with sudo")
	case options.Nodes < 1 || options.Nodes > 2000:
		return nil, fmt.Errorf("a cluster of %d nodes cannot be raised: ask for 1 to 2000", options.Nodes)
	case !filepath.IsLocal(options.Name) || filepath.Base(options.Name) != options.Name || options.Name == ".":
		return nil, fmt.Errorf("%q cannot name a cluster: use letters, digits and hyphens", options.Name)
	}
	for _, tool := range []string{"/usr/sbin/sshd", "/bin/mount"} {
		if _, err := os.Stat(tool); err != nil {
			return nil, fmt.Errorf("%s is missing: run testhosts/apt.sh", tool)
		}
	}
	if options.Slurm {
		if err := HasSlurm(); err != nil {
			return nil, err
		}
	}
	c := &Cluster{
		Name: options.Name, Slots: options.Slots, Slurm: options.Slurm, dir: filepath.Join(stateRoot, options.Name),
		Head: &Node{Name: options.Name + "-head", Address: "10.77.0.1"},
	}
	for i := range options.Nodes {
		c.Nodes = append(c.Nodes, &Node{
			Name:    fmt.Sprintf("w%d", i+1),
			Address: fmt.Sprintf("10.77.%d.%d", 1+i/254, 1+i%254),
		})
	}
	c.adopt()
	return c, nil
}

// adopt fills in what the state file does not keep.
func (c *Cluster) adopt() {
	c.dir = filepath.Join(stateRoot, c.Name)
	c.sw = &Node{Name: "switch", cluster: c, pidfd: -1}
	for _, n := range c.Machines() {
		n.cluster, n.pidfd = c, -1
	}
}

// Machines returns the head and the nodes.
func (c *Cluster) Machines() []*Node {
	return append([]*Node{c.Head}, c.Nodes...)
}

// Peers returns the other nodes of the cluster, without the head.
func (n *Node) Peers() []*Node {
	return slices.DeleteFunc(slices.Clone(n.cluster.Nodes), func(peer *Node) bool { return peer == n })
}

// Node returns the machine of that name: a node, the head's full name or "head".
func (c *Cluster) Node(name string) (*Node, error) {
	if name == "head" {
		return c.Head, nil
	}
	i := slices.IndexFunc(c.Machines(), func(n *Node) bool { return n.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("cluster %s has no node %s", c.Name, name)
	}
	return c.Machines()[i], nil
}

func (c *Cluster) raise(ctx context.Context, options Options) error {
	if err := c.writeState(options); err != nil {
		return err
	}
	if err := c.sw.spawn(unix.CLONE_NEWNET | unix.CLONE_NEWPID); err != nil {
		return err
	}
	// Starting is mostly the machines' own work; wiring holds a kernel lock.
	// Side by side they keep both processors busy.
	var boot errgroup.Group
	boot.SetLimit(4)
	for _, n := range c.Machines() {
		if ctx.Err() != nil {
			break
		}
		boot.Go(n.boot)
	}
	if err := boot.Wait(); err != nil {
		return err
	}
	if err := c.wire(c.Machines()); err != nil {
		for _, n := range c.Machines() {
			if n.dead() { // the better reason
				return n.startFailure()
			}
		}
		return err
	}
	for _, n := range c.Machines() {
		if err := n.awaitSSHD(ctx); err != nil {
			return err
		}
	}
	if c.Slurm {
		if err := c.raiseSlurm(ctx); err != nil {
			return err
		}
	}
	// Written last: a cluster that has it is complete.
	text, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir, "cluster.json"), text, 0o600)
}

// Attach returns the running cluster of that name, whoever raised it.
func Attach(name string) (*Cluster, error) {
	text, err := os.ReadFile(filepath.Join(stateRoot, name, "cluster.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("attach to %s: %w", name, ErrNotUp)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", name, err)
	}
	c.adopt()
	running, err := initProcesses(c.dir)
	if err != nil {
		return nil, err
	}
	for _, n := range append(c.Machines(), c.sw) {
		if n.pid = running[n.Name]; n.pid == 0 {
			return nil, fmt.Errorf("attach to %s: %s has died: %w", name, n.Name, ErrNotUp)
		}
		if n.pidfd, err = unix.PidfdOpen(n.pid, 0); err != nil {
			return nil, fmt.Errorf("attach to %s: %s: %w", name, n.Name, err)
		}
	}
	return c, nil
}

// List returns the names of the clusters that are up, whole or half.
func List() ([]string, error) {
	entries, err := os.ReadDir(stateRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// Down ends the cluster and everything that runs in it, and returns when
// nothing of it is left.
func (c *Cluster) Down() error {
	machines := append(c.Machines(), c.sw)
	for _, n := range machines {
		if n.pidfd >= 0 {
			// By what we hold of it: the process table may be out of reach, as where
			// no more files can be opened. One that has died already is no matter.
			unix.PidfdSendSignal(n.pidfd, unix.SIGKILL, nil, 0)
		}
	}
	err := Remove(c.Name)
	if err == nil { // else there may be one to wait for without end
		c.waiting.Wait()
	}
	for _, n := range machines {
		n.closePidfd()
	}
	return err
}

// Remove ends the cluster of that name, also one that was left half up. It is
// no error when there is none.
func Remove(name string) error {
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return fmt.Errorf("%q cannot name a cluster", name)
	}
	dir := filepath.Join(stateRoot, name)
	// More than once, because a Raise that is being killed may still have
	// started one while we looked.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		running, err := initProcesses(dir)
		if err != nil {
			return err
		}
		if len(running) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("take down %s: %d nodes do not die", name, len(running))
		}
		for _, pid := range running {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("take down %s: %w", name, err)
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	// Fails as it should while other clusters are up.
	if err := os.Remove(stateRoot); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

var raised atomic.Int64

// RaiseFor raises a cluster for the time of a test, and skips that where it would take
// root. Its name begins with that of the options and is nobody else's: other tests, and
// the same in another checkout, may run on this machine. Logins are light.
func RaiseFor(t testing.TB, options Options) *Cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("NOT RUN: %s raises namespace hosts, which needs root", t.Name())
	}
	options.Name = fmt.Sprintf("%s%d-%d", options.Name, os.Getpid(), raised.Add(1))
	options.LightLogins = true
	c, err := Raise(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// InParts tests the rows of a table in four parts side by side, each on a cluster of its
// own: what takes such tests their time is waiting for what never comes, and a cluster is
// up in a moment. mine is which rows, counted from 0, are a part's.
func InParts(t *testing.T, options Options, test func(t *testing.T, c *Cluster, mine func(row int) bool)) {
	t.Parallel()
	const parts = 4
	for part := range parts {
		t.Run(fmt.Sprintf("part %d", part+1), func(t *testing.T) {
			t.Parallel()
			test(t, RaiseFor(t, options), func(row int) bool { return row%parts == part })
		})
	}
}

// CPU is the processor time that logins to the nodes, and what runs by them, have taken
// so far, once they have ended.
func (c *Cluster) CPU() (total time.Duration, err error) {
	const tick = time.Second / 100 // USER_HZ, on every machine that Go runs on
	for _, n := range c.Nodes {
		root := fmt.Sprintf("/proc/%d/root", n.pid)
		text, err := os.ReadFile(root + sshdPid)
		if err != nil {
			return 0, err
		}
		proc, err := procfs.NewFS(root + "/proc")
		if err != nil {
			return 0, err
		}
		server, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, err
		}
		for _, pid := range []int{1, server} { // the first takes in what its parent did not wait for
			process, err := proc.Proc(pid)
			if err != nil {
				return 0, err
			}
			stat, err := process.Stat()
			if err != nil {
				return 0, err
			}
			total += time.Duration(int(stat.UTime)+int(stat.STime)+stat.CUTime+stat.CSTime) * tick
		}
	}
	return total, nil
}
