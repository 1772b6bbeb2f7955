// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command cluster starts a cluster of namespace hosts that stays up. It can also break and heal the
// nodes, and remove the cluster. It needs root and Linux. Package testhosts does all the work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"preflight/testhosts"
)

const usage = `usage: cluster COMMAND [-name NAME] …

  up -n 4 [-slots 8] [-slurm] start a cluster of hosts and leave it running (-slurm: with Slurm)
  down                        remove the cluster, even if it has started only in part
  list                        list the running clusters
  exec HOST|head [--] ARGV…   run a command on a node, or on the launching machine (head)
  fault                       list the faults that you can cause
  fault FAULT HOST…           cause a fault on nodes
  heal HOST…                  restart nodes in their original state
`

type command struct {
	name  string
	slots int
	nodes int
	slurm bool
	args  []string
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	var c command
	flags := flag.NewFlagSet("cluster "+os.Args[1], flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flags.StringVar(&c.name, "name", "pf", "the cluster's name")
	if os.Args[1] == "up" {
		flags.IntVar(&c.nodes, "n", 4, "number of nodes")
		flags.IntVar(&c.slots, "slots", 8, "slots of each node in the hostfile")
		flags.BoolVar(&c.slurm, "slurm", false, "start Slurm on the hosts")
	}
	flags.Parse(os.Args[2:])
	c.args = flags.Args()
	run, known := map[string]func(command, context.Context) error{
		"up": command.up, "down": command.down, "list": command.list, "exec": command.exec,
		"fault": command.fault, "heal": command.heal,
	}[os.Args[1]]
	if !known {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	// Catch the signal instead of ignoring it, because a command that exec starts must get Ctrl-C
	// itself.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(c, ctx)
	stop()
	var exit *exec.ExitError
	if os.Args[1] == "exec" && errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(1)
	}
}

// call returns the command line that runs this program for this cluster.
func (c command) call(arguments string) string {
	verb, rest, _ := strings.Cut(arguments, " ")
	if c.name != "pf" {
		verb += " -name " + c.name
	}
	return strings.TrimSpace(os.Args[0] + " " + verb + " " + rest)
}

func (c command) up(ctx context.Context) error {
	began := time.Now()
	program := siblingPreflight()
	options := testhosts.Options{Name: c.name, Nodes: c.nodes, Slots: c.slots, Slurm: c.slurm, Preflight: program}
	if here, err := os.Getwd(); err == nil && program != "" {
		options.Share = []string{here, filepath.Dir(program)}
	}
	cluster, err := testhosts.Raise(ctx, options)
	if errors.Is(err, testhosts.ErrExists) {
		return fmt.Errorf("%w: remove it first with %s", err, c.call("down"))
	}
	if err != nil {
		return err
	}
	last := cluster.Nodes[len(cluster.Nodes)-1].Name
	judge := "preflight -H "
	if program == "" {
		judge = "bin/preflight -H "
	}
	judge += testhosts.HostfilePath + " --accelerator cpu"
	if cluster.Nodes[0].Command(ctx, "python3", "-c", "import importlib.util as u; exit(u.find_spec('torch') is None)").Run() != nil {
		judge += " --skip torch-same   # the hosts have no torch"
	}
	fmt.Printf(`cluster %s is up after %.1fs: w1 to %s, each with a real sshd, and %s to launch from

  check it      %s
  get a shell   %s
  break a node  %s
  repair it     %s
  remove it     %s

`, cluster.Name, time.Since(began).Seconds(), last, cluster.Head.Name,
		c.call("exec head -- "+judge),
		c.call("exec head -- bash"), c.call("fault shm-small "+last), c.call("heal "+last), c.call("down"))
	return nil
}

// siblingPreflight returns the path of the preflight in this program's directory, or "" if there is
// none.
func siblingPreflight() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	program := filepath.Join(filepath.Dir(self), "preflight")
	if _, err := os.Stat(program); err != nil {
		return ""
	}
	return program
}

func (c command) down(context.Context) error { return testhosts.Remove(c.name) }

func (c command) list(context.Context) error {
	names, err := testhosts.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		cluster, err := testhosts.Attach(name)
		if err != nil {
			fmt.Printf("%s\tbroken: %v\n", name, err)
			continue
		}
		fmt.Printf("%s\t%d nodes, head %s\n", name, len(cluster.Nodes), cluster.Head.Name)
	}
	return nil
}

func (c command) exec(ctx context.Context) error {
	argv := c.args[min(1, len(c.args)):]
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return errors.New("exec needs a host and a command, for example: exec w1 -- hostname")
	}
	cluster, err := testhosts.Attach(c.name)
	if err != nil {
		return err
	}
	node, err := cluster.Node(c.args[0])
	if err != nil {
		return err
	}
	// Do not cancel the command: it gets Ctrl-C from the terminal and decides itself how it ends.
	ctx = context.WithoutCancel(ctx)
	cmd := node.Command(ctx, argv...)
	if node == cluster.Head {
		cmd = cluster.OnHead(ctx, argv...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if term := os.Getenv("TERM"); term != "" {
		cmd.Env = append(cmd.Env, "TERM="+term)
	}
	return cmd.Run()
}

func (c command) fault(context.Context) error {
	switch len(c.args) {
	case 0:
		for _, f := range faults {
			fmt.Printf("  %-20s %s\n", f.name, f.does)
		}
		return nil
	case 1:
		return errors.New("fault needs a fault and a host, for example: fault shm-small w3")
	}
	for _, f := range faults {
		if f.name == c.args[0] {
			return c.each(c.args[1:], func(n *testhosts.Node) error {
				_, err := f.plant(n) // no undo is needed, because a restart heals the fault
				return err
			})
		}
	}
	return fmt.Errorf("unknown fault %s: %s lists the faults", c.args[0], c.call("fault"))
}

func (c command) heal(ctx context.Context) error {
	if len(c.args) == 0 {
		return errors.New("heal needs a host, for example: heal w3")
	}
	return c.each(c.args, func(n *testhosts.Node) error { return n.Restart(ctx) })
}

// each calls f for the named nodes, also after an error. If one of the nodes does not exist, each
// calls f for none.
func (c command) each(names []string, f func(*testhosts.Node) error) error {
	cluster, err := testhosts.Attach(c.name)
	if err != nil {
		return err
	}
	nodes := make([]*testhosts.Node, len(names))
	for i, name := range names {
		if nodes[i], err = cluster.Node(name); err != nil {
			return err
		}
	}
	for _, node := range nodes {
		err = errors.Join(err, f(node))
	}
	return err
}
