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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// stateRoot contains one directory for each cluster. A reboot empties the file system of stateRoot
// and also ends the clusters.
const stateRoot = "/run/preflight-testhosts"

// ErrExists means that a cluster of this name is up, or that a process died while it started one.
// [Remove] removes the cluster in both cases.
var ErrExists = errors.New("a cluster of that name exists")

// ErrNotUp means that no complete cluster has this name.
var ErrNotUp = errors.New("no cluster of that name is up")

// Options describes the cluster to start.
type Options struct {
	Name  string // name of the cluster, a path element; "" is pf
	Nodes int    // number of nodes, 1 to 2,000
	Slots int    // slots of each node in the hostfile; 0 means 8

	// Share lists directories of this machine that every node sees at the same path. A node sees
	// them even if they are below a directory of which the node has its own (/root, /tmp,
	// /var/tmp). nil shares the current directory.
	Share []string

	// Preflight is the path of a preflight that every machine has in its PATH, "" for none. Its
	// directory must be shared.
	Preflight string

	// LightLogins makes sshd offer only X25519. The hybrid post-quantum exchange that OpenSSH
	// prefers takes two thirds of the time of a login, and a test with a hundred runs needs several
	// thousand logins.
	LightLogins bool

	// Slurm starts a controller on the launching machine and slurmd on every node. Slurm offers the
	// slots as processors and as GPUs (see InSlurmJob).
	Slurm bool
}

// Cluster is a set of nodes in one Ethernet segment, 10.77.0.0/16, to which no other namespace of
// the machine is connected. Every node can log in to every other node as root with a key, and knows
// all host keys.
type Cluster struct {
	Name  string  `json:"name"`
	Slots int     `json:"slots"`
	Slurm bool    `json:"slurm,omitempty"`
	Head  *Node   `json:"head"`  // NAME-head, 10.77.0.1: the launching machine, which is not in the hostfile
	Nodes []*Node `json:"nodes"` // w1 … wN, from 10.77.1.1

	dir     string
	share   []string // see Options.Share; nil after Attach
	sw      *Node    // the switch, which contains the bridge
	waiting sync.WaitGroup
}

// HostfilePath is the path of the cluster's hostfile on every node.
const HostfilePath = "/root/hostfile"

// Raise starts a cluster and returns when every sshd listens. It needs root. The cluster outlives
// the process. If Raise fails, it removes what it has started.
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

// claim creates the cluster's directory, so only one Raise for each name can succeed.
func (c *Cluster) claim() error {
	for {
		if err := os.MkdirAll(stateRoot, 0o755); err != nil {
			return err
		}
		err := os.Mkdir(c.dir, 0o700)
		switch {
		case errors.Is(err, fs.ErrExist):
			return ErrExists
		case errors.Is(err, fs.ErrNotExist): // the last other cluster has just removed stateRoot
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
		return nil, fmt.Errorf("number of nodes %d: must be 1 to 2000", options.Nodes)
	case !filepath.IsLocal(options.Name) || filepath.Base(options.Name) != options.Name || options.Name == ".":
		return nil, fmt.Errorf("cluster name %q: use letters, digits and hyphens", options.Name)
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
		Name: options.Name, Slots: options.Slots, Slurm: options.Slurm, share: options.Share, dir: filepath.Join(stateRoot, options.Name),
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

// adopt sets the fields that the state file does not contain.
func (c *Cluster) adopt() {
	c.dir = filepath.Join(stateRoot, c.Name)
	c.sw = &Node{Name: "switch", cluster: c, pidfd: -1}
	for _, n := range c.Machines() {
		n.cluster, n.pidfd = c, -1
	}
}

// Machines returns the launching machine and the nodes.
func (c *Cluster) Machines() []*Node {
	return append([]*Node{c.Head}, c.Nodes...)
}

// Peers returns the other nodes of the cluster, without the launching machine.
func (n *Node) Peers() []*Node {
	return slices.DeleteFunc(slices.Clone(n.cluster.Nodes), func(peer *Node) bool { return peer == n })
}

// Node returns the machine of this name: a node, the full name of the launching machine, or "head".
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
	// Booting is mostly work of the new machines, and connecting them to the network holds a lock
	// of the kernel. Doing both at once keeps two processors busy.
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
			if n.dead() { // returns a better error than the timeout
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
	// The state file is written last. A cluster that has one is complete.
	text, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir, "cluster.json"), text, 0o600)
}

// Attach returns the running cluster of this name, whichever process started it.
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

// List returns the names of the clusters that are up, complete or not.
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

// Down ends the cluster with all its processes. It returns when no process or file of the cluster
// is left.
func (c *Cluster) Down() error {
	machines := append(c.Machines(), c.sw)
	for _, n := range machines {
		if n.pidfd >= 0 {
			// Use the open pidfds, because reading the process table may be impossible, for example
			// if no more files can be opened. An error means that the process has already ended.
			unix.PidfdSendSignal(n.pidfd, unix.SIGKILL, nil, 0)
		}
	}
	err := Remove(c.Name)
	if err == nil { // after an error, the wait might never end
		c.waiting.Wait()
	}
	for _, n := range machines {
		n.closePidfd()
	}
	return err
}

// Remove ends the cluster of this name, even if only a part of the cluster has started. It returns
// nil if there is no such cluster.
func Remove(name string) error {
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return fmt.Errorf("cluster name %q: use letters, digits and hyphens", name)
	}
	dir := filepath.Join(stateRoot, name)
	// Repeat this, because a Raise that is being killed may have started a process after the
	// process table was read.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		running, err := initProcesses(dir)
		if err != nil {
			return err
		}
		if len(running) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("take down %s: %d nodes did not end", name, len(running))
		}
		for _, pid := range running {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("take down %s: %w", name, err)
			}
		}
	}
	if err := errors.Join(removeCgroups(name), os.RemoveAll(dir)); err != nil {
		return err
	}
	// Removing stateRoot fails while other clusters are up, which is fine.
	if err := os.Remove(stateRoot); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

var raised atomic.Int64

// RaiseFor starts a cluster for the duration of a test, and skips the test without root. The
// cluster's name begins with the name in the options. The name is unique, because other tests, even
// of another checkout, may run on this machine. RaiseFor sets LightLogins.
func RaiseFor(t testing.TB, options Options) *Cluster {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("NOT RUN: %s starts namespace hosts, which needs root", t.Name())
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

// InParts runs the rows of a table test in four parallel parts, each with its own cluster. Such
// tests mostly wait for timeouts, and a cluster starts quickly. mine reports whether a row, counted
// from 0, belongs to the part.
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
