// SPDX-License-Identifier: Apache-2.0

//go:build oracle && linux

package oracle_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"preflight/testhosts"
)

const (
	newestDeepSpeed = "0.19.8"
	olderDeepSpeed  = "0.15.1" // a release that reads --include like the newest one, but does not quote values of .deepspeed_env
)

// head is preflight's name for the machine on which the launch is typed.
const head = "launching machine"

// flaw describes what is wrong with a launch, and the expected result.
type flaw struct {
	name      string
	nodes     int      // the number of nodes; 0 means two
	versions  []string // releases of DeepSpeed; nil means the newest
	plant     func(context.Context, *testhosts.Cluster, attempt) error
	hostfile  string   // text of the hostfile; "" means all nodes with one slot each
	envFile   string   // text of .deepspeed_env
	expected  string   // a variable with its value that every rank must see
	env       []string // environment of the shell
	options   []string // options of deepspeed
	arguments []string // arguments of the training
	ranks     []string // the intended host of each rank; nil means each node

	found   []string // the checks that fail and the nodes that they name; nil if the training works
	refused string   // a part of the reason why preflight refuses the command
	warned  string   // the check that warns, with its nodes, if the training runs with settings that differ from the command
}

func (f flaw) releases() []string {
	if f.versions == nil {
		return []string{newestDeepSpeed}
	}
	return f.versions
}

// works reports whether the training does what was intended.
func (f flaw) works() bool { return f.found == nil && f.refused == "" && f.warned == "" }

func (f flaw) hosts() []string {
	if f.ranks == nil {
		return []string{"w1", "w2", "w3", "w4"}[:cmp.Or(f.nodes, 2)]
	}
	return f.ranks
}

// flaws lists the launches to try.
var flaws = []flaw{
	{name: "none", arguments: []string{"--name", "first try", "--rate=1e-4"}},

	{name: "no-directory", nodes: 3, found: []string{"workdir-present w3"}, plant: func(ctx context.Context, c *testhosts.Cluster, a attempt) error {
		return shell(ctx, c.Nodes[2], `umount "$1" && rmdir "$1"`, a.dir)
	}},
	{name: "no-interpreter", nodes: 3, found: []string{"python-same w3"}, plant: func(ctx context.Context, c *testhosts.Cluster, a attempt) error {
		return empty(ctx, c.Nodes[2], filepath.Dir(a.bin))
	}},
	{name: "no-deepspeed", nodes: 3, found: []string{"deepspeed-same w3"}, plant: func(ctx context.Context, c *testhosts.Cluster, a attempt) error {
		return shell(ctx, c.Nodes[2], `cd "$1"/../lib/python*/site-packages && mkdir /root/new /root/work &&
			mount -t overlay -o lowerdir=.,upperdir=/root/new,workdir=/root/work overlay "$PWD" && rm -r "$PWD"/deepspeed "$PWD"/deepspeed-*`, a.bin)
	}},
	{name: "other-script", nodes: 3, found: []string{"script-same w3"}, plant: func(ctx context.Context, c *testhosts.Cluster, a attempt) error {
		other := strings.Replace(string(training), "torch.full((1 << 16,), 1.0)", "torch.full((1 << 16,), 2.0)", 1)
		if err := c.Nodes[2].WriteFile("/root/other.py", []byte(other), 0o644); err != nil {
			return err
		}
		return shell(ctx, c.Nodes[2], `mount --bind /root/other.py "$1"`, filepath.Join(a.dir, "train.py"))
	}},
	{name: "no-key", nodes: 3, found: []string{"ssh-login w3"}, plant: func(_ context.Context, c *testhosts.Cluster, _ attempt) error {
		_, err := c.Nodes[2].RemoveAuthorizedKey()
		return err
	}},
	{name: "noise", found: []string{"ssh-shell w1"}, plant: noisyFirst},
	{name: "noise-and-address", options: []string{"--master_addr", "w1"}, plant: noisyFirst},

	// pdsh refuses modules that another user could change.
	{name: "pdsh-owned", found: []string{"launcher-ready " + head}, plant: func(ctx context.Context, c *testhosts.Cluster, _ attempt) error {
		return shell(ctx, c.Head, `cp -a "$1" /root/modules && chown -R 1000 /root/modules && mount --bind /root/modules "$1"`, pdshModules())
	}},
	// DeepSpeed sets PDSH_RCMD_TYPE to ssh.
	{name: "pdsh-rsh", env: []string{"PDSH_RCMD_TYPE=rsh"}},
	{name: "pdsh-timeout", env: []string{"PDSH_COMMAND_TIMEOUT=3"}, found: []string{"launcher-ready " + head}},
	{name: "pdsh-port", env: []string{"PDSH_SSH_ARGS_APPEND=-p 2222"}, found: []string{"launcher-ready w1 w2"}},

	{name: "env-comment", envFile: "# for our network\nNCCL_DEBUG=INFO\n", found: []string{"launcher-env " + head}},
	{name: "env-commented-out", envFile: "# NCCL_DEBUG=INFO\n", found: []string{"launcher-env " + head}},
	{name: "env-blank", envFile: "NCCL_DEBUG=INFO\n\nNCCL_IB_DISABLE=1\n", found: []string{"launcher-env " + head}},
	{name: "env", envFile: "NOTE=two words\n", expected: "NOTE=two words"},
	{name: "env", versions: []string{olderDeepSpeed}, envFile: "NOTE=one\n", expected: "NOTE=one", arguments: []string{"--name", "first try"}},
	// No release protects a value from a second evaluation by the shell. Older releases do not even
	// protect spaces in a value.
	{name: "env-words", versions: []string{olderDeepSpeed}, envFile: "NCCL_DEBUG_SUBSYS=INIT, NET\n", expected: "NCCL_DEBUG_SUBSYS=INIT, NET", warned: "launcher-env " + head},
	{name: "env-percent", envFile: "NCCL_DEBUG_FILE=/root/nccl.%h.log\n", expected: "NCCL_DEBUG_FILE=/root/nccl.%h.log", warned: "launcher-env " + head},

	{name: "one-host", options: []string{"--include", "w2:0"}, ranks: []string{"w2"}, found: []string{"launcher-args " + head}},
	{name: "one-host-forced", options: []string{"--include", "w2:0", "--force_multi"}, ranks: []string{"w2"}},
	{name: "bare-include", nodes: 3, versions: []string{newestDeepSpeed, olderDeepSpeed}, options: []string{"--include", "w2@w3"}, ranks: []string{"w2", "w3"}},
	{name: "no-slots", nodes: 3, hostfile: "w1 slots=1\nw2 slots=0\nw3 slots=1\n", ranks: []string{"w1", "w3"}},
	{name: "more-ranks", options: []string{"--num_gpus", "2"}, ranks: []string{"w1", "w1", "w2", "w2"}},
	{name: "port-in-hostfile", hostfile: "w1:22 slots=1\nw2:22 slots=1\n", ranks: []string{"w1", "w2"}, found: []string{"launcher-args " + head, "ssh-reach w1:22 w2:22"}},
	{name: "no-hostfile", refused: "hostfile", plant: func(_ context.Context, _ *testhosts.Cluster, a attempt) error {
		return os.Remove(filepath.Join(a.dir, "hostfile"))
	}},

	{name: "argument-dollar", arguments: []string{"--name", "a$HOME"}, warned: "launcher-args " + head},
	{name: "argument-semicolon", arguments: []string{"--name", "a;b"}, found: []string{"launcher-args " + head}},
	{name: "argument-percent", arguments: []string{"--name=step-%n"}, warned: "launcher-args " + head},
}

// pdshModules returns the directory of Debian's pdsh modules.
func pdshModules() string {
	dirs, _ := filepath.Glob("/usr/lib/*/pdsh") // the pattern is valid
	return strings.Join(dirs, " ")
}

func noisyFirst(_ context.Context, c *testhosts.Cluster, _ attempt) error {
	_, err := c.Nodes[0].NoisyShell("Welcome to the cluster")
	return err
}

// empty hides the contents of a directory from the node.
func empty(ctx context.Context, n *testhosts.Node, dir string) error {
	return shell(ctx, n, `mount -t tmpfs none "$1"`, dir)
}

// shell runs a script with one argument on the node.
func shell(ctx context.Context, n *testhosts.Node, script, argument string) error {
	_, err := n.Run(ctx, "/bin/sh", "-c", script, "sh", argument)
	return err
}
