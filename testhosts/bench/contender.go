// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"preflight/testhosts"
)

// contender is a command on the launching machine that contacts every node. Its results of each
// round are the duration in seconds, and the processor time of the launching machine and of the
// nodes in milliseconds per node.
type contender struct {
	name      string
	argv      func(b *bench, names []string) []string
	cold      bool // the nodes are cleaned before the command starts
	preflight bool // the command may exit with 1, because it may find problems on the hosts

	seconds, head, node sample
}

// These are the measured commands, in the order of a round. In "everything" the nodes connect to
// each other. A real machine spends only its own share of that work, but here one machine spends
// the work of all nodes.
const (
	bareLogin = "bare x/crypto login"
	pdsh      = "pdsh -R ssh hostname"
	cold      = "preflight, cold"
	looking   = "preflight, warm, looking only"
	warm      = "preflight, warm"
)

func table() []*contender {
	list := func(of []string) string { return strings.Join(of, ",") }
	return []*contender{
		{name: bareLogin, argv: func(b *bench, of []string) []string { return []string{b.self, "-floor", list(of)} }},
		{name: pdsh, argv: func(_ *bench, of []string) []string {
			return []string{"pdsh", "-R", "ssh", "-f", "1024", "-w", list(of), "hostname"}
		}},
		{name: "clush hostname", argv: func(_ *bench, of []string) []string {
			return []string{"clush", "-f", "1024", "-w", list(of), "hostname"}
		}},
		{name: "parallel-ssh hostname", argv: func(_ *bench, of []string) []string {
			return []string{"parallel-ssh", "-p", "1024", "-H", strings.Join(of, " "), "hostname"}
		}},
		{name: cold, argv: func(b *bench, _ []string) []string { return b.argv() }, cold: true, preflight: true},
		{name: looking, argv: func(b *bench, _ []string) []string { return b.argv(lookOnly...) }, preflight: true},
		{name: warm, argv: func(b *bench, _ []string) []string { return b.argv() }, preflight: true},
	}
}

// lookOnly holds the options that skip all checks for which nodes contact each other.
var lookOnly = []string{"--skip", "node-mesh,path-mtu,rendezvous,ssh-between-nodes"}

// contest runs all contenders in turn, round after round, until the ratios between their results
// are stable. The first round warms up shared caches and does not count.
func (b *bench) contest(ctx context.Context, cluster *testhosts.Cluster) error {
	if b.contenders != nil {
		return nil
	}
	contenders := table()
	for round := range b.most + 1 {
		b.others.look()
		for _, c := range contenders {
			if err := c.measure(ctx, b, cluster); err != nil {
				return err
			}
			if round == 0 {
				c.seconds, c.head, c.node = nil, nil, nil
			}
		}
		settled := !slices.ContainsFunc(contenders[1:], func(c *contender) bool { return !c.seconds.by(contenders[0].seconds).stable() })
		fmt.Fprintf(os.Stderr, "bench: round %d of %d at most\n", round, b.most)
		if round > 0 && settled {
			break
		}
	}
	b.contenders = contenders
	return nil
}

// measure runs a contender once.
func (c *contender) measure(ctx context.Context, b *bench, cluster *testhosts.Cluster) error {
	if c.cold {
		if err := b.clean(ctx, cluster); err != nil {
			return err
		}
	}
	var names []string
	for _, node := range cluster.Nodes {
		names = append(names, node.Name)
	}
	before, err := cluster.CPU()
	if err != nil {
		return err
	}
	took, used, err := b.onHead(ctx, cluster, c.preflight, c.argv(b, names)...)
	if err != nil {
		return err
	}
	after, err := cluster.CPU()
	if err != nil {
		return err
	}
	nodes := float64(len(names))
	c.seconds = append(c.seconds, took.Seconds())
	c.head = append(c.head, milliseconds(used)/nodes)
	c.node = append(c.node, milliseconds(after-before)/nodes)
	return nil
}

// onHead runs a command on the launching machine and returns its duration and processor time.
func (b *bench) onHead(ctx context.Context, cluster *testhosts.Cluster, judges bool, argv ...string) (took, used time.Duration, err error) {
	cmd := cluster.OnHead(ctx, argv...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	err = cmd.Run()
	took = time.Since(began)
	ended, is := errors.AsType[*exec.ExitError](err)
	if err != nil && !(judges && is && ended.ExitCode() == 1) {
		return 0, 0, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, stderr.String())
	}
	return took, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// clean removes what earlier runs have left on the nodes.
func (b *bench) clean(ctx context.Context, cluster *testhosts.Cluster) error {
	_, _, err := b.onHead(ctx, cluster, false, b.preflight, "clean", "-H", testhosts.HostfilePath)
	return err
}

// of returns the contender with this name. If the contest has not run yet, of runs it first.
func (b *bench) of(name string) *contender {
	return b.contenders[slices.IndexFunc(b.contenders, func(c *contender) bool { return c.name == name })]
}

func (b *bench) printContenders() {
	if b.contenders == nil {
		return
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%d hosts, %d rounds\tseconds\ttimes the floor\ttimes pdsh\tCPU a node: head\tnode\tboth, times pdsh\n", b.nodes, len(b.contenders[0].seconds))
	peer := b.of(pdsh)
	for _, c := range b.contenders {
		fmt.Fprintf(out, "%s\t%s\t%.2f\t%.2f\t%.1f ms\t%.1f ms\t%.2f\n", c.name, c.seconds.text(2),
			c.seconds.by(b.of(bareLogin).seconds).median(), c.seconds.by(peer.seconds).median(),
			c.head.median(), c.node.median(), (c.head.median()+c.node.median())/(peer.head.median()+peer.node.median()))
	}
	out.Flush()
}
